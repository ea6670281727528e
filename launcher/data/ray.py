"""Ray Data on the data group: hosts that are nodes of one cluster, and ranks that share a dataset.

The command of the data group, whose `ready` is `{file: ready}`, is `python -m launcher.data.ray`;
arguments after it are passed on to `ray start`. In the script:

    import launcher.data.ray

    launcher.data.ray.join_cluster()
    train = launcher.data.ray.split(pipeline.train_set, equal=True)

The head and the workers are on the data hosts; trainers are nodes without CPUs. Ray is imported on
first use.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from launcher.shared import HOSTS_VARIABLE

PORT = 6379  # of the head
PATIENCE = 600  # seconds until a node has joined


def join_cluster(group: str = "data_group", *, options: Sequence[str] = ()) -> None:
    """Make this host a node without CPUs, which reads batches and prepares none.

    All ranks call it, after `torch.distributed.init_process_group`. group: the one whose hosts are
    the cluster. options: of `ray start`. Raises ValueError for a group that the job does not have.
    """
    head = _head_of(group)
    _take_token()
    import ray
    import torch.distributed as dist

    if os.environ["LOCAL_RANK"] == "0":
        start_node(head, ["--num-cpus=0", *options])
    dist.barrier()
    ray.init(
        f"{socket.gethostbyname(head)}:{PORT}",
        _node_ip_address=_own_address(),
        log_to_driver=dist.get_rank() == 0,
    )


def split(make_dataset: Callable[[], Any], *, equal: bool) -> Any:
    """Return this rank's share, a `ray.data.DataIterator`, of a dataset that the first rank makes.

    All ranks must call it and read their shares, or all wait. equal: all ranks get as many samples,
    and up to one for each rank but the first is left out.
    """
    import ray
    import torch.distributed as dist

    shares: list[Any] = [None] * dist.get_world_size()
    if dist.get_rank() == 0:
        parts = make_dataset().streaming_split(len(shares), equal=equal)
        shares = [ray.cloudpickle.dumps(part) for part in parts]
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, shares)
    return ray.cloudpickle.loads(mine[0])


def start_node(head: str, options: Sequence[str]) -> subprocess.Popen[str]:
    """Start this host's node of the cluster; return when it has joined.

    head: the host of the head, by name or address. options: of `ray start`.

    Hosts start at different times, and Ray gives up after half a minute: try again for longer.
    Raises RuntimeError after that.
    """
    _take_token()
    deadline = time.monotonic() + PATIENCE
    while (node := _try_to_start(head, options)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"ray start has failed for {PATIENCE} s")
        time.sleep(1)
    return node


def main() -> int:
    """Run a data host's node of the cluster until training ends."""
    head = _head_of(os.environ["SM_CURRENT_INSTANCE_GROUP"])
    node = start_node(head, [f"--num-cpus={os.environ['SM_NUM_CPUS']}", *sys.argv[1:]])
    signal.signal(signal.SIGTERM, lambda *_: node.terminate())
    Path("ready").touch()  # training starts when all data hosts have written this
    for line in node.stdout or ():
        print(line, end="", flush=True)
    code = node.wait()
    print("closed", flush=True)
    return code


def _try_to_start(head: str, options: Sequence[str]) -> subprocess.Popen[str] | None:
    """`ray start` when it has joined, or None when it has ended or the head has no name yet."""
    try:
        address = socket.gethostbyname(head)
    except socket.gaierror:  # its host starts later
        return None
    is_head = _own_address() == address
    place = ["--head", f"--port={PORT}"] if is_head else [f"--address={address}:{PORT}"]
    node = subprocess.Popen(
        [
            *(str(Path(sys.executable).parent / "ray"), "start", "--block", *place),
            f"--node-ip-address={_own_address()}",
            *(["--include-dashboard=false"] if is_head else []),
            "--disable-usage-stats",
            *options,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in node.stdout or ():
        print(line, end="", flush=True)
        if "Ray runtime started" in line:
            return node
    node.wait()
    return None


def _take_token() -> None:
    os.environ["RAY_AUTH_TOKEN"] = os.environ["LAUNCHER_TOKEN"]  # without it, nobody joins


def _own_address() -> str:
    """Return an address of this host that the others reach."""
    address = os.environ["LAUNCHER_HOST_ADDRESS"]
    on_sagemaker = address == "0.0.0.0"
    return socket.gethostbyname(os.environ["SM_CURRENT_HOST"]) if on_sagemaker else address


def _head_of(group: str) -> str:
    """Return the first host of a group; raises ValueError if the job has no such group."""
    groups = json.loads(os.environ[HOSTS_VARIABLE])
    if group not in groups:
        raise ValueError(f"the job has no group {group!r}; its groups are {sorted(groups)}")
    return str(groups[group][0])


if __name__ == "__main__":
    sys.exit(main())
