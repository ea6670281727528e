"""For how long stages that sleep are idle, and how many microbatches they hold.

With v stages on each of p ranks, a step of m microbatches takes as long as v m + p - 1 stages do,
so that (p - 1) / (v m + p - 1) of it is idle at best. Sleeping stages show what is idle beyond
that, on a machine of few processors too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from table.figures import Figure, at_most
from trainers_parts.bench import Bench

_STAGES = 4
#: Schedules, each with the stages on a rank.
_SCHEDULES = (("simple", 1), ("interleaved", 1), ("interleaved", 2))


def measure(bench: Bench) -> Iterator[Figure]:
    forward = bench.pick(0.1, 0.02)  # seconds of a stage; its backward pass takes two of them
    cases = [(name, m, v) for m in bench.pick((4, 8, 16), (4,)) for name, v in _SCHEDULES]
    found = bench.run(
        "bubbles",
        ranks=_STAGES,
        stages=_STAGES,
        seconds=forward,
        cases=cases,
        rounds=bench.rounds,
    )
    for case in cases:
        schedule, many, virtual = case
        steps = found[json.dumps(case)]
        name = f"{schedule}, m = {many}" + (f", v = {virtual}" if virtual > 1 else "")
        idle = [1 - virtual * many * 3 * forward / step["seconds"] for step in steps]
        yield _beyond(name, idle, (_STAGES - 1) / (virtual * many + _STAGES - 1))
        if virtual == 1:
            yield _held(schedule, many, [step["peaks"] for step in steps])


def _beyond(name: str, idle: list[float], formula: float) -> Figure:
    shares = ", ".join(f"{share:.3f}" for share in idle)
    return Figure(
        row="bubble",
        what=f"{name}: idle share, from (p-1)/(v m+p-1)",
        values=[abs(share - formula) for share in idle],
        unit="",
        target=at_most(0.03),
        note=f"{shares}; {formula:.3f}",
    )


def _held(schedule: str, many: int, peaks: list[list[int]]) -> Figure:
    """peaks: of each stage, round by round."""
    most = "m" if schedule == "simple" else "min(m, p-s)"
    should = [
        many if schedule == "simple" else min(many, _STAGES - stage) for stage in range(_STAGES)
    ]
    return Figure(
        row="bubble",
        what=f"{schedule}, m = {many}: live microbatches, from {most}",
        values=[max(abs(a - b) for a, b in zip(found, should, strict=True)) for found in peaks],
        unit="",
        target=at_most(0),
        note=f"by stage {', '.join(map(str, peaks[0]))}",
    )
