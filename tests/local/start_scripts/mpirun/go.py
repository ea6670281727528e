"""mpirun, started by the script itself on one group."""

import json
import os
import subprocess
import sys

hosts = json.loads(os.environ["SM_INSTANCE_GROUPS_DICT"])["gpu"]["hosts"]
if os.environ["SM_CURRENT_HOST"] == hosts[0]:
    slots = ",".join(f"{host}:2" for host in hosts)
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "--host", slots]
    sys.exit(subprocess.run([*command, sys.executable, "add.py"]).returncode)
