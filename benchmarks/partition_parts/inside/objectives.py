"""A model that is cut for speed and for memory: what is predicted of both, and their steps."""

from __future__ import annotations

import torch

from launcher import parallel
from launcher.parallel.partitioning import CutProblem, best
from launcher.shared import Objective
from partition_parts.inside.models import pyramid
from partition_parts.inside.subject import measured, names, stepping
from table.turns import in_turns
from trainers_parts.inside.conversation import settings, tell


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    stages, many = told["stages"], told["microbatches"]
    world = parallel.init(pipeline=stages, microbatches=many)
    subject = pyramid(**told["shape"])
    chain = measured(subject, world)
    problem = CutProblem(chain=chain, partitions=stages, microbatches=many)
    cuts = {each.value: best(problem, each) for each in Objective}
    starts = {name: names(chain, each.places) for name, each in cuts.items()}
    times = in_turns(
        told["turns"], {name: stepping(subject, world, each) for name, each in starts.items()}
    )
    tell(
        {
            name: {
                "starts": starts[name],
                "step": each.step,
                "seconds": times[name],
                "bytes": [
                    float(problem.memory(number)[stage])
                    for number, stage in enumerate(chain.stages(each.places))
                ],
            }
            for name, each in cuts.items()
        }
    )
    parallel.leave()


if __name__ == "__main__":
    main()
