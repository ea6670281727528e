"""Cuts of a chain of modules that sleep, random ones and the best: predicted, and timed."""

from __future__ import annotations

import random

import torch

from launcher import parallel
from launcher.parallel.partitioning import Chain, CutProblem, best, fastest, search
from launcher.shared import Objective, Orders, Schedule, StageSeconds, simulate
from partition_parts.inside.sleeping import sleepers
from partition_parts.inside.subject import measured, names, stepping
from table.turns import in_turns
from trainers_parts.inside.conversation import settings, tell

Places = tuple[int, ...]


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init(pipeline=told["stages"], microbatches=told["microbatches"])
    subject = sleepers(told["modules"], told["seconds"], told["seed"])
    chain = measured(subject, world)
    schedule = Schedule(told["schedule"])
    problem = CutProblem(
        chain=chain,
        partitions=told["stages"],
        microbatches=told["microbatches"],
        schedule=schedule,
    )
    orders = Orders(schedule=schedule, ranks=told["stages"], microbatches=told["microbatches"])
    chosen = fastest(chain, orders, best(problem, Objective.SPEED).places).places
    searched = search(chain, orders, Objective.SPEED).places
    places = list(dict.fromkeys([chosen, searched, *_drawn(told, chain)]))
    steps = {
        str(each): stepping(subject, world, names(chain, each), schedule.value) for each in places
    }
    tell(
        {
            "chosen": places.index(chosen),
            "searched": places.index(searched),
            "predicted": [_predicted(chain, orders, each) for each in places],
            "by formula": [problem.evaluate(each).step for each in places],
            "measured": list(in_turns(told["rounds"], steps).values()),
        }
    )
    parallel.leave()


def _predicted(chain: Chain, orders: Orders, places: Places) -> float:
    """Seconds of a step, as a partition's file has them: the schedule is played."""
    stages = [
        StageSeconds(
            forward=float(chain.forward[first, end]),
            backward=float(chain.backward[first, end]),
            sending=float(chain.ends[first] + chain.ends[end]),
        )
        for first, end in chain.stages(places)
    ]
    return simulate(orders, stages).seconds


def _drawn(told: dict[str, int], chain: Chain) -> set[Places]:
    """So many cuts."""
    draw, found = random.Random(told["seed"]), set()
    while len(found) < told["plans"]:
        found.add(tuple(sorted(draw.sample(range(1, len(chain)), told["stages"] - 1))))
    return found


if __name__ == "__main__":
    main()
