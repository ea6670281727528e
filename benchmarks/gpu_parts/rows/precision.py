"""bfloat16 against float32: the same training learns the same, in less time."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_parts import gpus
from gpu_parts.rows.overhead import QUICK
from table.figures import Figure, at_least, at_most
from trainers_parts.bench import Bench

_SHAPE = {"width": 1024, "layers": 8, "heads": 16, "length": 512, "dropout": 0.0}


def measure(bench: Bench) -> Iterator[Figure]:
    shape, steps = bench.pick((_SHAPE, 60), (QUICK, 8))
    runs = [
        bench.run("precisions", ranks=1, shape=shape, samples=16, steps=steps)
        for _ in range(bench.rounds)
    ]
    pairs = [(run["null"], run["bf16"]) for run in runs]
    note = gpus.note(1)
    yield Figure(
        row="precision",
        what=f"loss after {steps} steps, bf16 from float32",
        values=[100 * abs(half[0] / full[0] - 1) for full, half in pairs],
        unit="%",
        target=at_most(5),
        note=note,
    )
    yield Figure(
        row="precision",
        what="faster than float32",
        values=[full[1] / half[1] for full, half in pairs],
        target=at_least(1.5),
        note=note,
    )
