"""From 1 to 16 workers of each engine that sleep: what is left is what an engine itself costs."""

from __future__ import annotations

from collections.abc import Iterator

from data_service_parts.bench import Bench
from data_service_parts.harness import Order
from engines_parts.sides import BATCH, OURS, measure_awake, settings, started
from table.figures import Figure, at_least
from table.turns import in_turns

_COUNTS = (1, 4, 16)
#: Seconds of a sample: a batch takes its worker a third of a second.
_SLEEP = 0.01
#: Turns of all workers in a window, and before it. Ray's batches come four at a time.
_TURNS, _WARM_TURNS = 8, 6


def measure(bench: Bench) -> Iterator[Figure]:
    variables = settings(bench, "sleeping", _SLEEP)
    ideal = 1 / _SLEEP
    for count in _COUNTS[: 2 if bench.is_quick else None]:
        for name, rates in _rates(bench, count, variables).items():
            shares = [rate / (count * ideal) for rate in rates]
            yield Figure(
                row="scaling",
                what=f"{name}, {count} workers: to what they can",
                values=shares,
                target=at_least(0.95) if name == OURS else None,
            )


def _rates(bench: Bench, count: int, variables: dict[str, str]) -> dict[str, list[float]]:
    """Samples a second of each engine, round by round."""
    order = Order(
        seconds=0.0,
        least=int(bench.pick(_TURNS, 2)) * count,
        warm_seconds=0.0,
        warm_batches=int(bench.pick(_WARM_TURNS, 1)) * count,
        verify=0,
    )
    with started(bench, "sleeping", count, variables) as sides:
        measures = {s.name: lambda side=s: measure_awake(bench, side, order) for s in sides}
        windows = in_turns(bench.rounds, measures)
    return {name: [w.batches_per_second * BATCH for w in w_] for name, w_ in windows.items()}
