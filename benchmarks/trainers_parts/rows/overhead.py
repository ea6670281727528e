"""What a step of launcher.parallel takes longer than one of the parts of torch that it is made of.

Both sides train the same model on the same data in the same ranks, by turns: pairs of blocks of
steps, each second pair beginning with the other side. The slow-down is that of a pair; the figure
is the median of all pairs of all rounds, with its bootstrap interval. The target holds when the
median keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from table.figures import Figure, at_least, at_most, interval_of
from trainers_parts.bench import Bench

#: Milliseconds: what is told of shorter steps says little about training.
_LEAST = 200
#: Relative: both sides must have learned the same.
_SAME = 1e-4


def measure(bench: Bench) -> Iterator[Figure]:
    turns = {"pairs": bench.pick(16, 3), "block": bench.pick(2, 1)}
    small = bench.pick({}, {"width": 32, "layers": 2})

    def run(module: str, dropout: float, **settings: Any) -> list[dict[str, Any]]:
        shape = {"dropout": dropout, **small}
        return [
            bench.run(module, ranks=2, shape=shape, **settings, **turns)
            for _ in range(bench.rounds)
        ]

    runs = run("replicas", 0.1, samples=6, is_half=False)
    yield from compared("overhead", "data parallel, 2 ranks", runs, most_percent=2)
    for dropout, name in ((0.0, "pipeline, 2 stages"), (0.1, "pipeline with dropout")):
        runs = run("stages", dropout, samples=20, microbatches=4)
        # With dropout each side drops other elements.
        yield from compared("overhead", name, runs, most_percent=3, are_same=dropout == 0)


def compared(
    row: str,
    name: str,
    runs: Sequence[dict[str, Any]],
    *,
    most_percent: float,
    are_same: bool = True,
) -> Iterator[Figure]:
    """runs: the pairs of `inside.sides`, and the difference of the sides in the end."""
    ours, plain = ([pair for run in runs for pair in run[side]] for side in ("ours", "plain"))
    both = list(zip(ours, plain, strict=True))
    slower, dearer = ([100 * (a[n] / b[n] - 1) for a, b in both] for n in range(2))
    yield Figure(
        row=row,
        what=f"{name}: slower than by hand",
        values=slower,
        unit="%",
        target=at_most(most_percent),
        interval=interval_of(slower),
    )
    yield Figure(
        row=row,
        what=f"{name}: more processor time",
        values=dearer,
        unit="%",
        interval=interval_of(dearer),
    )
    yield Figure(
        row=row,
        what=f"{name}: a step by hand (valid run)",
        values=[1000 * passed for passed, _ in plain],
        unit="ms",
        target=at_least(_LEAST),
    )
    if are_same:
        yield Figure(
            row=row,
            what=f"{name}: what was learned, apart (valid run)",
            values=[run["difference"] for run in runs],
            unit="",
            target=at_most(_SAME),
        )
