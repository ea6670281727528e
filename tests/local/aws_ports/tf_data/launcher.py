"""The script of every host: tf.data servers on the data hosts, mpirun's ranks on the dnn hosts.

Each dnn host also has tf.data workers of its own, which its first rank starts.
"""

import os
import socket
import subprocess
import sys
import time

from sagemaker_training import environment

DATA_GROUP = "data_group"
DNN_GROUP = "dnn_group"
SHUTDOWN_PORT = 16000


def start_child_process_async(name, additional_args):
    params = ["python", f"./{name}", *sys.argv[1:], *additional_args]
    print(f"Opening process async: {params}", flush=True)
    return subprocess.Popen(params).pid


def start_child_process(name, additional_args):
    params = ["python", f"./{name}", *sys.argv[1:], *additional_args]
    print(f"Opening process: {params}", flush=True)
    code = subprocess.run(params).returncode
    print(f"Process {name} closed with returncode={code}", flush=True)
    return code


def is_first_rank_of_the_host():
    return os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0") == "0"


def start_dnn_group(dispatcher_host):
    args = ["--dispatcher_host", dispatcher_host]
    if is_first_rank_of_the_host():
        start_child_process_async("train_data.py", args)
    return start_child_process("train_dnn.py", args)


def shut_down(hosts):
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        return
    for host in hosts:
        for attempt in range(12):
            try:
                if attempt > 0:
                    time.sleep(1)
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
                    s.connect((host, SHUTDOWN_PORT))
                print(f"Shutdown request sent to {host}", flush=True)
                break
            except Exception as e:
                print(f"Failed to shutdown {host} due to: {e}", flush=True)


def main():
    env = environment.Environment()
    print(f"{env.current_host} is in {env.current_instance_group}", flush=True)
    dispatcher_host = env.instance_groups_dict[DATA_GROUP]["hosts"][0]
    if env.current_instance_group == DATA_GROUP:
        return start_child_process("train_data.py", ["--dispatcher_host", dispatcher_host])
    if env.current_instance_group == DNN_GROUP:
        code = start_dnn_group(dispatcher_host)
        dnn_hosts = env.instance_groups_dict[DNN_GROUP]["hosts"]
        if env.current_host == dnn_hosts[0]:
            shut_down(env.instance_groups_dict[DATA_GROUP]["hosts"] + dnn_hosts)
        return code
    raise Exception(f"Unknown instance group: {env.current_instance_group}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as e:
        print(f"Failed due to {e}. exiting with returncode=1", flush=True)
        sys.exit(1)
