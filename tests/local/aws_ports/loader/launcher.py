"""The script of every host: it looks at its group, starts that group's program, and waits."""

import socket
import subprocess
import sys
import time

from sagemaker_training import environment

DATA_GROUP = "data_group"
DNN_GROUP = "dnn_group"
SHUTDOWN_PORT = 16000


def start_child_process(name, additional_args):
    params = ["python", f"./{name}", *sys.argv[1:], *additional_args]
    print(f"Opening process: {params}", flush=True)
    code = subprocess.run(params).returncode
    print(f"Process {name} closed with returncode={code}", flush=True)
    # The data service kills itself, so that none of its threads keeps it
    return 0 if code in (-15, -9) else code


def shut_down(host):
    for attempt in range(12):
        try:
            with socket.create_connection((host, SHUTDOWN_PORT), timeout=10):
                print(f"Shutdown request sent to {host}", flush=True)
            return
        except OSError as error:
            print(f"Attempt {attempt} to shut {host} down: {error}", flush=True)
            time.sleep(1)


def main():
    env = environment.Environment()
    data_hosts = env.instance_groups_dict[DATA_GROUP]["hosts"]
    print(f"{env.current_host} is in {env.current_instance_group}", flush=True)
    if env.current_instance_group == DATA_GROUP:
        return start_child_process("train_data.py", [])
    if env.current_instance_group == DNN_GROUP:
        code = start_child_process("train_dnn.py", ["--data_hosts", ",".join(data_hosts)])
        if env.current_host == env.instance_groups_dict[DNN_GROUP]["hosts"][0]:
            for host in data_hosts:
                shut_down(host)
        return code
    raise Exception(f"Unknown instance group: {env.current_instance_group}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as e:
        print(f"Failed due to {e}. exiting with returncode=1", flush=True)
        sys.exit(1)
