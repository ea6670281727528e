"""A model that is cut for speed, and by rules that do not measure it: steps by turns."""

from __future__ import annotations

import torch

from launcher import parallel
from launcher.parallel.partitioning import CutProblem, best
from launcher.shared import Objective
from partition_parts.inside.models import MODELS
from partition_parts.inside.rules import by_count, by_layers, by_parameters, layers
from partition_parts.inside.subject import measured, names, stepping
from table.turns import in_turns
from trainers_parts.inside.conversation import settings, tell


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    stages, many = told["stages"], told["microbatches"]
    world = parallel.init(pipeline=stages, microbatches=many)
    subject = MODELS[told["model"]](**told["shape"])
    chain = measured(subject, world)
    problem = CutProblem(chain=chain, partitions=stages, microbatches=many)
    found = layers(chain)
    places = {
        "ours": best(problem, Objective.SPEED).places,
        "module count": by_count(chain, stages),
        "DeepSpeed's parameter balance": by_parameters(chain, found, stages),
        "torchtitan's layers": by_layers(found, stages),
    }
    steps = {each: stepping(subject, world, names(chain, each)) for each in set(places.values())}
    times = in_turns(told["turns"], {str(each): steps[each] for each in sorted(steps)})
    tell(
        {
            name: {
                "places": each,
                "starts": names(chain, each),
                "modules": len(chain),
                "predicted": problem.evaluate(each).step,
                "measured": times[str(each)],
            }
            for name, each in places.items()
        }
    )
    parallel.leave()


if __name__ == "__main__":
    main()
