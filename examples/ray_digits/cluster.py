"""The job's Ray cluster: head and workers on the data hosts, trainers as nodes without CPUs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

PORT = 6379  # of the head
OBJECT_STORE = 200 << 20  # bytes of shared memory on each node
PATIENCE = 600  # seconds until a node has joined
os.environ["RAY_AUTH_TOKEN"] = os.environ["LAUNCHER_TOKEN"]  # without it, nobody joins


def own_address() -> str:
    """An address of this host that the others reach."""
    address = os.environ["LAUNCHER_HOST_ADDRESS"]
    on_sagemaker = address == "0.0.0.0"
    return socket.gethostbyname(os.environ["SM_CURRENT_HOST"]) if on_sagemaker else address


def head_address() -> str:
    """The address of the first data host."""
    return socket.gethostbyname(os.environ["LAUNCHER_HOSTS_DATA_GROUP"].split(",")[0])


def start_node(cpus: int) -> subprocess.Popen[str]:
    """Start this host's node of the cluster; return when it has joined.

    Hosts start at different times, and Ray gives up after half a minute: try again for longer.
    Raises RuntimeError after that.
    """
    deadline = time.monotonic() + PATIENCE
    while (node := try_to_start(cpus)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"ray start has failed for {PATIENCE} s")
        time.sleep(1)
    return node


def try_to_start(cpus: int) -> subprocess.Popen[str] | None:
    """`ray start` when it has joined, or None when it has ended or the head has no name yet."""
    try:
        head = head_address()
    except socket.gaierror:  # its host starts later
        return None
    is_head = own_address() == head
    place = ["--head", f"--port={PORT}"] if is_head else [f"--address={head}:{PORT}"]
    node = subprocess.Popen(
        [
            *(Path(sys.executable).parent / "ray", "start", "--block", *place),
            f"--node-ip-address={own_address()}",
            f"--num-cpus={cpus}",
            f"--object-store-memory={OBJECT_STORE}",
            *(["--include-dashboard=false"] if is_head else []),
            "--disable-usage-stats",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in node.stdout:
        print(line, end="", flush=True)
        if "Ray runtime started" in line:
            return node
    node.wait()
    return None
