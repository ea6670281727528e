"""A model that is profiled and cut, or trained as it was cut: what is predicted, and what it takes.

Without `places` in its settings, rank 0 tells the decision; with them, ranks train, and tell the
seconds of steps, and the bytes of each rank that are more than those before it had a model.
"""

from __future__ import annotations

import torch

from launcher import parallel
from launcher.parallel.partitioning import PartitionQuestion, decide
from launcher.parallel.profiling import ProcessMemory, Sample, link_speed, profile, repeated
from launcher.shared import Fingerprint
from partition_parts.inside.models import MODELS
from partition_parts.inside.subject import piped
from trainers_parts.inside.clock import everywhere, seconds
from trainers_parts.inside.conversation import settings, tell

_WARM = 3
OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
}


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init(pipeline=told["stages"], microbatches=told["microbatches"])
    subject = MODELS[told["model"]](**told["shape"])
    optimizer = OPTIMIZERS[told["optimizer"]]
    if told["starts"] is None:
        link = link_speed.measure_link(world.pp_group, world.device)
        if world.rank == 0:
            inputs, target = subject.batch(subject.samples)
            sample = Sample(arguments={"input": inputs}, target=target, loss=subject.loss)
            found = decide(
                repeated(
                    lambda: profile(
                        subject.make(),
                        sample,
                        device=world.device,
                        states={"AdamW": 2, "SGD": 1}[told["optimizer"]],
                        optimizer=optimizer,
                    )
                ),
                Fingerprint(parameters={}, calls=(), example=(), torch=torch.__version__),
                link,
                PartitionQuestion(partitions=told["stages"], microbatches=told["microbatches"]),
            )
            tell(
                {
                    "starts": found.starts,
                    "step": found.step,
                    "spread": found.spread,
                    "update": max(each.update for each in found.stages),
                    "bytes": [each.memory for each in found.stages],
                }
            )
        seconds(lambda: None)
    else:
        inputs, target = subject.batch(subject.samples * world.degrees.microbatches)
        seconds(lambda: None)  # ranks connect
        small = torch.nn.Linear(1, 1)
        small(torch.ones(1, 1)).sum().backward()
        optimizer(list(small.parameters())).step()  # imports what torch needs for it
        memory = ProcessMemory(world.device)
        before = memory.begin()
        pipeline = piped(subject, world, told["starts"])
        trained = optimizer(list(pipeline.parameters()))

        def step() -> None:
            trained.zero_grad()
            pipeline.step(inputs, target=target)
            trained.step()

        for _ in range(_WARM):
            step()
        memory.begin()
        times = [seconds(step)[0] for _ in range(told["steps"])]
        tell({"seconds": times, "bytes": everywhere(memory.peak - before)})
    parallel.leave()


if __name__ == "__main__":
    main()
