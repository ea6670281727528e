"""Two workers of each engine prepare the same samples: rates, and the trainer's processor time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from data_service_parts.bench import Bench
from data_service_parts.harness import Order, Window
from engines_parts.sides import BATCH, OURS, measure_awake, settings, started
from table.figures import Figure, interval_of, ratios
from table.turns import in_turns

_WORKERS = 2


def measure(bench: Bench, row: str) -> Iterator[Figure]:
    """row: the kind of samples, too. Windows are long, because Ray's batches come in blocks."""
    order = Order(
        seconds=bench.pick(6.0, 0.2),
        least=int(bench.pick(16, 2)),
        warm_seconds=bench.pick(2.0, 0.0),
        warm_batches=int(bench.pick(16, 1)),
        verify=1,
    )
    with started(bench, row, _WORKERS, settings(bench, row)) as sides:
        measures = {s.name: lambda side=s: measure_awake(bench, side, order) for s in sides}
        windows = in_turns(bench.rounds, measures)
    yield from _figures(row, windows)


def _figures(row: str, windows: dict[str, list[Window]]) -> Iterator[Figure]:
    rates = {name: [each.batches_per_second * BATCH for each in w] for name, w in windows.items()}
    for name, values in rates.items():
        yield Figure(row=row, what=f"{name}, 2 workers", values=values, unit="samples/s")
    for name, values in rates.items():
        if name != OURS:
            yield _ratio(row, f"rate to {name}", ratios(rates[OURS], values))
    used = {name: [_trainer_seconds(each) for each in w] for name, w in windows.items()}
    for name, values in used.items():
        what = f"{name}: CPU of the trainer's host for 1,000 samples"
        yield Figure(row=row, what=what, values=values, unit="s")
    for name, values in used.items():
        if name != OURS:
            yield _ratio(row, f"CPU of the trainer's host to {name}", ratios(used[OURS], values))


def _ratio(row: str, what: str, values: Sequence[float]) -> Figure:
    return Figure(row=row, what=what, values=values, interval=interval_of(values))


def _trainer_seconds(window: Window) -> float:
    gigabytes = window.bytes_per_second * window.seconds / 1e9
    return 1000 * window.trainer_cpu_per_gb * gigabytes / (window.batches * BATCH)
