"""Ray Data: a head with a CPU for each worker, and the trainer's node, which has none.

serve WORKERS prints the head's port; read PORT WORKERS starts the second node and has the consumer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Workers as urgent as those of the other engines, and no token, as in older releases.
os.environ |= {"RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}  # before ray is imported

import consumer
import numpy as np
import ray
import work
from samples_check import Samples

_HEAD, _TRAINER = "127.0.0.2", "127.0.0.3"
#: Batches of a block, and blocks. A task returns a block when it is whole.
_BLOCK, _BLOCKS = 4, 4000


def start_node(*options: str) -> subprocess.Popen[str]:
    """`ray start`, which ends with this process's group; return when it has joined."""
    node = subprocess.Popen(
        [
            *(
                str(Path(sys.executable).parent / "ray"),
                "start",
                "--block",
                "--disable-usage-stats",
            ),
            *(f"--object-store-memory={256 << 20}", *options),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert node.stdout is not None
    for line in node.stdout:
        print(line, end="", file=sys.stderr)
        if "Ray runtime started" in line:
            return node
    raise RuntimeError(f"ray start ended with {node.wait()}")


def serve(workers: int) -> None:
    port = 20_000 + os.getpid() % 10_000
    node = start_node(
        *("--head", f"--port={port}", f"--node-ip-address={_HEAD}", f"--num-cpus={workers}"),
        "--include-dashboard=false",
    )
    print(port, flush=True)
    node.wait()


def prepare(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if seconds := float(os.environ.get(work.SLEEP, 0)):
        time.sleep(len(batch["id"]) * seconds)
    make = work.WORK[os.environ[work.KIND]]
    return {"data": np.stack([make(int(index)) for index in batch["id"]]), "id": batch["id"]}


def read(port: int) -> Iterator[Any]:
    start_node(f"--address={_HEAD}:{port}", f"--node-ip-address={_TRAINER}", "--num-cpus=0")
    names = (work.FOLDER, work.BATCH, work.KIND, work.SLEEP, "PYTHONPATH")
    ray.init(
        f"{_HEAD}:{port}",
        _node_ip_address=_TRAINER,
        log_to_driver=False,
        runtime_env={"env_vars": {name: os.environ[name] for name in names}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    size = int(os.environ[work.BATCH])
    samples = ray.data.range(_BLOCKS * size * _BLOCK, override_num_blocks=_BLOCKS)
    # A whole block at a time: else its reading is a task of its own, and runs ahead without an end.
    for batch in samples.map_batches(prepare, batch_size=None).iter_batches(batch_size=size):
        yield batch["data"], batch["id"]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        consumer.serve(read(int(sys.argv[2])), Samples())
