"""torch's elastic launcher, started by the script itself on one group, fed by the other."""

import json
import os
import socket
import subprocess
import sys

PORT = 5555
env = json.loads(os.environ["SM_TRAINING_ENV"])
groups = env["instance_groups_dict"]
if env["current_instance_group"] == "gpu":
    hosts = groups["gpu"]["hosts"]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(hosts))]
    command += ["--nproc_per_node", "1", "--rdzv_backend", "c10d", "--rdzv_id", env["job_name"]]
    command += ["--rdzv_endpoint", f"{hosts[0]}:29400", "train.py"]
    subprocess.check_call(command)
    if env["current_host"] == hosts[0]:
        for host in groups["feed"]["hosts"]:
            socket.create_connection((host, PORT)).sendall(b"bye")
else:
    with socket.create_server(("", PORT)) as server:
        while True:
            connection, _ = server.accept()
            if connection.recv(3) == b"bye":
                break
            connection.sendall(b"7")
            connection.close()
    print("the feed leaves", flush=True)
