"""Entry point of every host: find out which group this is, and run that group's program.

A training job in the style of AWS's PyTorch example for heterogeneous clusters. The three programs
know SageMaker's files and nothing of Launcher.
"""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

CODE = Path("/opt/ml/input/data/code")
SHUTDOWN_PORT = 16000
ATTEMPTS, PAUSE = 120, 1.0


def hosts_of(resources, group_name):
    for group in resources["instance_groups"]:
        if group["instance_group_name"] == group_name:
            return group["hosts"]
    raise SystemExit(f"there is no group {group_name}")


def shut_down(host):
    """A connection is the whole message."""
    for _ in range(ATTEMPTS):
        try:
            socket.create_connection((host, SHUTDOWN_PORT), timeout=10).close()
        except OSError as error:  # noqa: PERF203 - each attempt may fail on its own
            print(f"{host} does not listen on its shutdown port yet: {error}", flush=True)
            time.sleep(PAUSE)
        else:
            return
    raise SystemExit(f"{host} could not be shut down")


def run(program, *arguments):
    code = subprocess.run([sys.executable, str(CODE / program), *arguments]).returncode
    if code != 0:
        sys.exit(code)


def main():
    resources = json.loads(Path("/opt/ml/input/config/resourceconfig.json").read_text())
    parameters = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())
    data_hosts = hosts_of(resources, "data_group")
    train_hosts = hosts_of(resources, "dnn_group")
    me, group = resources["current_host"], resources["current_group_name"]
    if group == "data_group":
        share = f"{data_hosts.index(me)}/{len(data_hosts)}"
        options = ("--batch-size", parameters["batch-size"], "--share", share)
        run("data_host.py", *options, "--shutdowns", str(len(train_hosts)))
    elif group == "dnn_group":
        run("train_host.py", "--data-hosts", *data_hosts)
        for host in data_hosts:
            shut_down(host)
    else:
        raise SystemExit(f"group {group} has no part in this")


if __name__ == "__main__":
    main()
