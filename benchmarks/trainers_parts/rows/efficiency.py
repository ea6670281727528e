"""How much more four replicas train with than one, when their work leaves the processors alone."""

from __future__ import annotations

from collections.abc import Iterator

from table.figures import Figure, at_least, ratios
from trainers_parts.bench import Bench

_SAMPLES = 8  # of a replica's batch
_RANKS = 4


def measure(bench: Bench) -> Iterator[Figure]:
    settings = {
        "samples": _SAMPLES,
        "seconds": bench.pick(0.1, 0.02),
        "steps": bench.pick(10, 3),
    }
    rates: dict[int, list[float]] = {1: [], _RANKS: []}
    for _ in range(bench.rounds):
        for ranks, values in rates.items():
            values.append(bench.run("efficiency", ranks=ranks, **settings))
    for ranks, values in rates.items():
        yield Figure(row="efficiency", what=f"{ranks} ranks", values=values, unit="samples/s")
    yield Figure(
        row="efficiency",
        what=f"{_RANKS} ranks: to {_RANKS} times one rank",
        values=[share / _RANKS for share in ratios(rates[_RANKS], rates[1])],
        target=at_least(0.95),
    )
