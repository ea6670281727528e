"""Random cuts of a chain of modules that sleep, and the best: predicted, and timed by turns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict

import torch

from launcher import parallel
from launcher.contract import Objective, Schedule
from launcher.parallel.partitioning.chain import Chain
from launcher.parallel.partitioning.optimum import Problem, best
from partition_parts.inside.sleeping import sleepers
from partition_parts.inside.subject import measured, names, stepping
from table.turns import in_turns
from trainers_parts.inside.conversation import settings, tell


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init(pipeline=told["stages"], microbatches=told["microbatches"])
    subject = sleepers(told["modules"], told["seconds"], told["seed"])
    chain = measured(subject, world)
    problem = Problem(
        chain=chain,
        partitions=told["stages"],
        microbatches=told["microbatches"],
        schedule=Schedule(told["schedule"]),
    )
    chosen = best(problem, Objective.SPEED)
    cuts = [chosen, *map(problem.evaluate, _drawn(told, chain, chosen.places))]
    steps = {
        str(each.places): stepping(subject, world, names(chain, each.places), told["schedule"])
        for each in cuts
    }
    tell(
        {
            "predicted": [each.step for each in cuts],
            "measured": list(in_turns(told["rounds"], steps).values()),
            "places": [each.places for each in cuts],
            "modules": [asdict(each) for each in chain.modules],
            "link": asdict(chain.link),
        }
    )
    parallel.leave()


def _drawn(told: dict[str, int], chain: Chain, chosen: tuple[int, ...]) -> Iterator[list[int]]:
    """So many cuts, none twice."""
    draw, seen = random.Random(told["seed"]), {chosen}
    while len(seen) <= told["plans"]:
        places = tuple(sorted(draw.sample(range(1, len(chain)), told["stages"] - 1)))
        if places not in seen:
            seen.add(places)
            yield list(places)


if __name__ == "__main__":
    main()
