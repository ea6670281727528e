"""The four engines as sides of one comparison, each with so many workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from data_service_parts.bench import Bench
from data_service_parts.harness import Order, Side, Window
from data_service_parts.job import Job
from data_service_parts.peer import Peer
from data_service_parts.processes import command_of
from engines_parts.inside import work
from launcher.shared import DataPart

_INSIDE = Path(__file__).parent / "inside"
_PEERS = Path(__file__).parent / "peers"
OURS = "Launcher"
_MODULES = {"tf.data service": "tf_engine", "Ray Data": "ray_engine", "torch": "torch_engine"}
#: Samples of a batch.
BATCH = 32
#: Batches that Launcher prepares ahead for each worker, which it does while others are measured.
#: With four, the rank told of freed memory less often than workers that compute needed it; those
#: that sleep have a window of eight batches, in which what is ahead counts.
_AHEAD, _AHEAD_OF_SLEEP = 16, 4
#: Seconds until TensorFlow or a cluster of Ray runs, on a machine with other work.
_PATIENCE = 400.0


def ours(bench: Bench, kind: str, workers: int, ahead: int | None = None) -> Job:
    """Launcher's side. ahead: the batches of 32 that may wait, or what a job has by default."""
    shape, dtype = work.SHAPES[kind]
    batch_bytes = BATCH * int(np.prod(shape)) * np.dtype(dtype).itemsize
    return Job(
        bench.folder / f"{kind}-{workers}",
        "read_engine.py",
        "datasets:samples",
        name=OURS,
        workers_per_host=workers,
        prefetch_bytes=ahead * batch_bytes if ahead else DataPart.prefetch_bytes,
        code=(_INSIDE,),
    )


def peers(bench: Bench, workers: int) -> list[Peer]:
    """The other engines; none without their environment."""
    if bench.peers_python is None:
        return []
    return [
        Peer(
            name=name,
            python=bench.peers_python,
            module=module,
            folder=bench.folder,
            arguments=[str(workers)],
            has_server=name != "torch",
            malloc={},  # each as its users have it
            modules=_PEERS,
            code=(_INSIDE,),
        )
        for name, module in _MODULES.items()
    ]


def settings(bench: Bench, kind: str, sleep: float = 0.0) -> dict[str, str]:
    """The variables of all sides."""
    folder = bench.folder / "samples"
    return {
        work.FOLDER: str(folder if folder.exists() else work.write(folder)),
        work.BATCH: str(BATCH),
        work.KIND: kind,
        work.SLEEP: str(sleep),
    }


@contextmanager
def started(
    bench: Bench, kind: str, workers: int, variables: dict[str, str]
) -> Iterator[list[Side]]:
    """All engines, each with its workers at work."""
    ahead = _AHEAD_OF_SLEEP if kind == "sleeping" else _AHEAD
    job = ours(bench, kind, workers, ahead=ahead * workers)
    sides: list[Side] = [job, *peers(bench, workers)]
    with ExitStack() as stack:
        for side in sides:
            stack.callback(bench.harness.stop, side)
            bench.harness.start(side, variables, _PATIENCE)
        job.await_workers(workers)
        yield sides


def measure_awake(bench: Bench, side: Side, order: Order) -> Window:
    """Measure one window, after which Ray's reader sleeps until the next.

    The executor in a reader whose buffers are full polls without a pause, and its tasks would go
    on while others are measured.
    """
    readers = [pid for pid in side.trainer.pids() if "ray_engine.py read" in command_of(pid)]

    def send(number: signal.Signals) -> None:
        for pid in readers:
            os.kill(pid, number)

    window = bench.harness.measure(side, order, wake=lambda: send(signal.SIGCONT))
    send(signal.SIGSTOP)
    return window
