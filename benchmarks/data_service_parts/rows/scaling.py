"""From 1 to 64 workers, each a real process whose work is to sleep.

Sleeping workers leave two processors to the service itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from data_service_parts.inside import variables
from data_service_parts.job import Job
from table.figures import Figure, at_least

_SAMPLE_SECONDS = 0.01
_BATCH = 32
_SAMPLE_BYTES = 3072
_WORKERS = (1, 4, 16, 64)


def measure(bench: Bench) -> Iterator[Figure]:
    settings = {
        variables.BATCH: str(_BATCH),
        variables.SAMPLE_BYTES: str(_SAMPLE_BYTES),
        variables.DATASET: "pipeline:sleeping",
        variables.SLEEP: str(_SAMPLE_SECONDS),
    }
    linear: list[float] = []
    for count in _WORKERS[: 2 if bench.is_quick else None]:
        rates = [rate * _BATCH for rate in _rates(bench, count, settings)]
        linear = linear or rates
        yield Figure(row="scaling", what=f"{count} workers", values=rates, unit="samples/s")
        if count > 1:
            shares = [rate / (count * one) for rate, one in zip(rates, linear, strict=True)]
            what = f"{count} workers: to {count} times one worker"
            yield Figure(row="scaling", what=what, values=shares, target=at_least(0.95))


def _rates(bench: Bench, count: int, settings: dict[str, str]) -> list[float]:
    """Batches a second, round by round."""
    folder = bench.folder / f"scaling-{count}"
    job = Job(folder, "read_samples.py", "pipeline:sleeping", workers_per_host=count)
    # Workers are in step, and batches come in clumps: only whole turns of them are a fair sample.
    order = Order(
        seconds=0.0,
        least=int(bench.pick(8, 2)) * count,
        warm_seconds=0.0,
        warm_batches=int(bench.pick(3, 1)) * count,
        verify=0,
    )
    try:
        bench.harness.start(job, settings)
        job.await_workers(count)
        windows = [bench.harness.measure(job, order) for _ in range(bench.rounds)]
    finally:
        bench.harness.stop(job)
    return [window.batches_per_second for window in windows]
