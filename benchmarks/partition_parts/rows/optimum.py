"""How long it takes to find the best cuts of a long chain: one process, one thread."""

from __future__ import annotations

from collections.abc import Iterator

from table.figures import Figure, at_most
from trainers_parts.bench import Bench


def measure(bench: Bench) -> Iterator[Figure]:
    modules, stages = bench.pick((1000, 16), (200, 8))
    found = bench.run("optimum", ranks=1, modules=modules, stages=stages, rounds=bench.rounds)
    for objective, seconds in found.items():
        yield Figure(
            row="optimum",
            what=f"{objective}: {modules} modules, {stages} stages",
            values=seconds,
            unit="s",
            target=at_most(3),
        )
