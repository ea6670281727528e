"""Memory of the trainer host's data processes while very many batches go through them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from data_service_parts.inside import payload, variables
from data_service_parts.job import Job
from data_service_parts.processes import memory_bytes
from table.figures import Figure, at_most

_BATCH_BYTES = 64 * 1024
_CREDIT = 32 << 20
_BATCHES = 100_000
_PARTS = 20
_MIB = 1 << 20


def measure(bench: Bench) -> Iterator[Figure]:
    folder = bench.folder / "memory"
    files = payload.write(folder / "payload", _BATCH_BYTES)
    job = Job(folder, "read_ready.py", "pipeline:ready", prefetch_bytes=_CREDIT)
    part = int(bench.pick(_BATCHES, 2000)) // _PARTS
    order = Order(seconds=0.0, least=part, warm_seconds=0.0, warm_batches=0, verify=0)
    sizes = []
    try:
        bench.harness.start(job, {variables.PAYLOAD: str(files)})
        services = [*job.pids("launcher.data.dispatcher"), *job.pids("launcher.data.receiver")]
        # A reader that is slow at first: the credits are used up from then on.
        bench.harness.measure(job, replace(order, least=4, sleep=0.5))
        for _ in range(_PARTS):
            bench.harness.measure(job, order)
            sizes.append(memory_bytes(services) / _MIB)
    finally:
        bench.harness.stop(job)
    yield Figure(
        row="memory",
        what=f"dispatcher and receiver beyond credits of {_CREDIT >> 20} MiB, at most",
        values=[max(sizes) - _CREDIT / _MIB],
        unit="MiB",
        target=at_most(64),
    )
    yield Figure(
        row="memory",
        what=f"growth over the last 80 % of {part * _PARTS:,} batches",
        values=[_growth(sizes[_PARTS // 5 :])],
        unit="MiB",
        target=at_most(2),
    )


def _growth(sizes: list[float]) -> float:
    """From the first to the last, along the line that fits all best."""
    slope, _ = statistics.linear_regression(range(len(sizes)), sizes)
    return slope * (len(sizes) - 1)
