"""Up to 64 workers of Launcher that sleep, each a process that sends to one trainer."""

from __future__ import annotations

from collections.abc import Iterator

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from engines_parts.sides import BATCH, ours, settings
from table.figures import Figure, at_least

_COUNTS = (1, 16, 32, 64)
_SLEEP = 0.01


def measure(bench: Bench) -> Iterator[Figure]:
    variables = settings(bench, "sleeping", _SLEEP)
    for count in _COUNTS[: 1 if bench.is_quick else None]:
        rates = _rates(bench, count, variables)
        yield Figure(row="linear", what=f"{count} workers", values=rates, unit="samples/s")
        yield Figure(
            row="linear",
            what=f"{count} workers: to {count} times what one that only sleeps can",
            values=[rate * _SLEEP / count for rate in rates],
            target=at_least(0.95),
        )


def _rates(bench: Bench, count: int, variables: dict[str, str]) -> list[float]:
    """Samples a second, round by round. Batches come in clumps: a window is whole turns."""
    order = Order(
        seconds=0.0,
        least=int(bench.pick(8, 2)) * count,
        warm_seconds=0.0,
        warm_batches=int(bench.pick(3, 1)) * count,
        verify=0,
    )
    job = ours(bench, "sleeping", count)
    try:
        bench.harness.start(job, variables, 400.0)
        job.await_workers(count, 400.0)
        windows = [bench.harness.measure(job, order) for _ in range(bench.rounds)]
    finally:
        bench.harness.stop(job)
    return [window.batches_per_second * BATCH for window in windows]
