"""Four models, cut for speed by what was measured of them, and by rules that measure nothing.

All cuts of a model are timed in the same ranks, by turns; a rule's step over ours is that of a
turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from table.figures import Figure, at_least, interval_of, ratios
from trainers_parts.bench import Bench

_STAGES, _MICROBATCHES = 2, 8
#: Milliseconds: what is told of shorter steps says little about training.
_LEAST = 200
#: Their shapes, where steps would be shorter.
_MODELS: dict[str, dict[str, int]] = {
    "gpt": {"samples": 2},
    "pyramid": {"samples": 30},
    "unet": {"samples": 28},
    "taper": {"samples": 96},
}
#: Two of them, small: for a quick run.
_SMALL = {"unet": {"depth": 2, "samples": 1}, "taper": {"first": 256, "samples": 4}}


def measure(bench: Bench) -> Iterator[Figure]:
    for model, shape in bench.pick(_MODELS, _SMALL).items():
        found = bench.run(
            "baselines",
            ranks=_STAGES,
            stages=_STAGES,
            microbatches=_MICROBATCHES,
            model=model,
            shape=shape,
            turns=bench.pick(5, 2) * bench.rounds,
        )
        ours = found.pop("ours")
        yield Figure(
            row="baselines",
            what=f"{model}: a step of ours (valid run)",
            values=[1000 * each for each in ours["measured"]],
            unit="ms",
            target=at_least(_LEAST),
            note=f"{_words(ours)}; predicted {1000 * ours['predicted']:.0f} ms",
        )
        for rule, theirs in found.items():
            yield _compared(f"{model}: {rule}, to ours", theirs, ours)


def _compared(what: str, theirs: dict[str, Any], ours: dict[str, Any]) -> Figure:
    if theirs["places"] == ours["places"]:
        return Figure(row="baselines", what=what, values=[1.0], note="it has the same cuts")
    longer = ratios(theirs["measured"], ours["measured"])
    return Figure(
        row="baselines",
        what=what,
        values=longer,
        target=at_least(0.97),
        interval=interval_of(longer),
        note=f"; {_words(theirs)}; predicted {theirs['predicted'] / ours['predicted']:.3g} x",
    )


def _words(cuts: dict[str, Any]) -> str:
    return f"cut at {', '.join(map(str, cuts['places']))} of {cuts['modules']}"
