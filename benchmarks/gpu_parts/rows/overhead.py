"""A step of the data parallel trainer against plain torch, on one GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_parts import gpus
from table.figures import Figure, at_most, interval_of
from trainers_parts.bench import Bench

#: About 0.6 billion parameters, 8,192 tokens.
SHAPE = {"width": 2048, "layers": 12, "heads": 16, "length": 1024, "dropout": 0.0}
QUICK = {"width": 64, "layers": 2, "heads": 4, "length": 64, "dropout": 0.0}
#: Relative; in bfloat16, after all steps of a run.
_SAME = 0.02


def measure(bench: Bench) -> Iterator[Figure]:
    yield from compared(bench, "overhead", "plain", "plain torch", ranks=1)


def compared(bench: Bench, row: str, kind: str, name: str, *, ranks: int) -> Iterator[Figure]:
    """Yield the lines of a comparison of `inside.steps`."""
    runs: list[dict[str, Any]] = [
        bench.run(
            "steps",
            ranks=ranks,
            kind=kind,
            shape=bench.pick(SHAPE, QUICK),
            samples=8,
            pairs=bench.pick(16, 2),
            block=bench.pick(4, 1),
        )
        for _ in range(bench.rounds)
    ]
    note = gpus.note(ranks)
    pairs = [both for run in runs for both in zip(run["ours"], run["plain"], strict=True)]
    slower = [100 * (ours[0] / plain[0] - 1) for ours, plain in pairs]
    yield Figure(
        row=row,
        what=f"slower than {name}",
        values=slower,
        unit="%",
        target=at_most(2),
        interval=interval_of(slower),
        note=note,
    )
    by_hand = [1000 * plain[0] for _, plain in pairs]
    yield Figure(row=row, what=f"a step of {name}", values=by_hand, unit="ms", note=note)
    yield Figure(
        row=row,
        what=f"{name}: what was learned, apart (valid run)",
        values=[run["difference"] for run in runs],
        unit="",
        target=at_most(_SAME),
        note=note,
    )
