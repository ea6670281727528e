"""The script of every host: it looks at its group, starts that group's program, and waits."""

import json
import os
import subprocess
import sys
from pathlib import Path

SHUTDOWN_PORT = 16000
FEED_PORT = 6000


def main() -> int:
    group = os.environ["SM_CURRENT_INSTANCE_GROUP"]
    data_hosts = json.loads(os.environ["SM_INSTANCE_GROUPS_DICT"])["data_group"]["hosts"]
    program = "train_data.py" if group == "data_group" else "train_dnn.py"
    command = [sys.executable, str(Path(__file__).parent / program)]
    command += ["--data-hosts", ",".join(data_hosts), *sys.argv[1:]]
    print(f"{os.environ['SM_CURRENT_HOST']} runs {program}", flush=True)
    code = subprocess.run(command, check=False).returncode
    return 0 if code in (-15, -9) else code


if __name__ == "__main__":
    sys.exit(main())
