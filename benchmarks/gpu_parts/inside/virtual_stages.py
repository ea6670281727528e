"""A pipeline of two stages on one GPU against the uncut model: the same losses and parameters."""

from __future__ import annotations

import torch

from gpu_parts.inside.partitioned import subject_of
from launcher import parallel
from launcher.parallel import Pipeline, autocasting
from trainers_parts.inside.conversation import settings, tell

_STEPS = 5


def main() -> None:
    told = settings()
    count = told["microbatches"]
    world = parallel.init(virtual_stages=2, microbatches=count)
    tell({str(precision): _compare(world, told, precision) for precision in (None, "bf16")})
    parallel.leave()


def _compare(
    world: parallel.ParallelContext, told: dict[str, object], precision: str | None
) -> float:
    """Return by how much the parameters differ after some steps, relatively to their change."""
    subject = subject_of(told)
    count = world.degrees.microbatches
    cut, uncut, initial = subject.make(), subject.make().to(world.device), subject.make()
    pipeline = Pipeline(
        cut,
        world,
        starts=["2"],
        example=subject.example,
        loss=subject.loss,
        precision=precision,
    )
    casting = autocasting(precision, world.device)
    optimizers = [
        torch.optim.SGD(each, 0.1) for each in (pipeline.parameters(), uncut.parameters())
    ]
    inputs, target = (x.to(world.device) for x in subject.batch(subject.samples * count))
    for _ in range(_STEPS):
        pipeline.step(inputs, target=target)
        for part, labels in zip(inputs.chunk(count), target.chunk(count), strict=True):
            with casting():
                loss = subject.loss(uncut(part), labels) / count
            loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    apart = changed = 0.0
    pairs = zip(cut.parameters(), uncut.parameters(), initial.parameters(), strict=True)
    for one, other, before in pairs:
        apart += (one - other).double().square().sum().item()
        changed += (other - before.to(world.device)).double().square().sum().item()
    return (apart / changed) ** 0.5


if __name__ == "__main__":
    main()
