"""How long it takes to find the best cuts of a long chain, for both objectives."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from launcher.parallel.partitioning import Chain, CutProblem, best
from launcher.shared import Link, ModuleCost, Objective
from table.turns import in_turns
from trainers_parts.inside.conversation import settings, tell

_MICROBATCHES = 32


def main() -> None:
    told = settings()

    def find(objective: Objective) -> float:
        """Seconds, from the costs of modules to the cuts."""
        modules = tuple(_drawn(told["modules"]))
        began = time.perf_counter()
        chain = Chain(modules, link=Link(latency=1e-5, bandwidth=1e10))
        problem = CutProblem(chain=chain, partitions=told["stages"], microbatches=_MICROBATCHES)
        best(problem, objective)
        return time.perf_counter() - began

    tell(
        in_turns(
            told["rounds"],
            {each.value: lambda each=each: find(each) for each in Objective},
        )
    )


def _drawn(count: int) -> Iterator[ModuleCost]:
    draw = random.Random(0)
    for number in range(count):
        seconds, size = draw.lognormvariate(-6, 1), int(draw.lognormvariate(14, 1.5))
        yield ModuleCost(
            name=str(number),
            forward=seconds,
            backward=2 * seconds,
            parameters=size,
            gradients=size,
            states=2 * size,
            kept=int(draw.lognormvariate(14, 1)),
            crossing=(crossing := int(draw.lognormvariate(13, 1))),
            returning=crossing,
        )


if __name__ == "__main__":
    main()
