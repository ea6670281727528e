"""Samples that cost processor time, with two workers, beside torch's DataLoader with two."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from data_service_parts.inside import variables
from data_service_parts.job import Job
from data_service_parts.peer import torch_loader
from table.figures import Figure, at_least, ratios
from table.turns import in_turns

_SAMPLE_SECONDS = 0.002
_BATCH = 64
_SAMPLE_BYTES = 3 * 32 * 32
#: Four batches, as torch's two workers prepare ahead: more would be prepared while torch is
#: measured.
_PREFETCH_BYTES = 4 * (256 << 10)


def measure(bench: Bench) -> Iterator[Figure]:
    order = Order(
        seconds=bench.pick(4.0, 0.2),
        warm_seconds=bench.pick(1.0, 0.0),
        warm_batches=int(bench.pick(8, 1)),
        least=int(bench.pick(4, 2)),
        verify=1,
    )
    settings = {
        variables.BATCH: str(_BATCH),
        variables.SAMPLE_BYTES: str(_SAMPLE_BYTES),
        variables.DATASET: "pipeline:burning",
        variables.BURN: str(_rounds_of_work(_SAMPLE_SECONDS)),
    }
    folder = bench.folder / "preprocessing"
    folder.mkdir()
    sides = [
        Job(
            folder,
            "read_samples.py",
            "pipeline:burning",
            workers_per_host=2,
            prefetch_bytes=_PREFETCH_BYTES,
        ),
        torch_loader(folder, "burning"),
    ]
    with ExitStack() as stack:
        for side in sides:
            stack.callback(bench.harness.stop, side)
            bench.harness.start(side, settings)
        measures = {s.name: lambda side=s: bench.harness.measure(side, order) for s in sides}
        windows = in_turns(bench.rounds, measures)
    rates = {name: [w.batches_per_second * _BATCH for w in w_] for name, w_ in windows.items()}
    for name, values in rates.items():
        yield Figure(
            row="preprocessing", what=f"{name}, 2 workers", values=values, unit="samples/s"
        )
    yield Figure(
        row="preprocessing",
        what="2 ms/sample, batch 64: to torch's DataLoader",
        values=ratios(rates["ours"], rates["torch"]),
        target=at_least(1.0),
    )


def _rounds_of_work(seconds: float) -> int:
    """Rounds of the arithmetic of pipeline.burn that take so long here; the quickest of a few."""
    rounds = 100_000
    durations = []
    for _ in range(7):
        start = time.thread_time()
        total = 0
        for number in range(rounds):
            total += number
        durations.append(time.thread_time() - start)
    return round(rounds * seconds / min(durations))
