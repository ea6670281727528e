"""A pipeline of two stages by launcher.parallel, and written by hand with torch's own parts."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from launcher import parallel
from launcher.parallel import Pipeline
from trainers_parts.inside.conversation import settings, tell
from trainers_parts.inside.gpt import VOCABULARY, Shape, loss
from trainers_parts.inside.sides import Step, compare, difference

Batch = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init(pipeline=2, microbatches=told["microbatches"])
    shape = Shape(**told["shape"])
    example, _ = shape.batch(0, told["samples"] // told["microbatches"])
    # The middle: behind the embedding and half of the blocks.
    start = 1 + shape.layers // 2

    def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids, labels = shape.batch(step, told["samples"])
        return ids.to(world.device), labels.to(world.device)

    model = shape.model()
    pipeline = Pipeline(model, world, starts=[str(start)], example={"input": example}, loss=loss)
    own = list(shape.model())[start:] if world.pp_rank else list(shape.model())[:start]
    stage = nn.Sequential(*own).to(world.device)
    times = compare(
        _ours(pipeline, batch),
        _plain(stage, world, shape, example, told["microbatches"], batch),
        pairs=told["pairs"],
        block=told["block"],
    )
    tell({**times, "difference": difference(pipeline.parameters(), stage.parameters())})
    parallel.leave()


def _ours(pipeline: Pipeline, batch: Batch) -> Step:
    optimizer = torch.optim.AdamW(pipeline.parameters())

    def step(number: int) -> None:
        optimizer.zero_grad()
        ids, labels = batch(number)
        pipeline.step(ids, target=labels)
        pipeline.clip(1.0)
        optimizer.step()

    return step


def _plain(
    stage: nn.Module,
    world: parallel.ParallelContext,
    shape: Shape,
    example: torch.Tensor,
    microbatches: int,
    batch: Batch,
) -> Step:
    """What who knows torch.distributed.pipelining well writes; it tells no other rank the loss."""
    is_first = world.pp_rank == 0
    between, logits = (
        torch.empty(*example.shape, size, device="meta", requires_grad=True)
        for size in (shape.width, VOCABULARY)
    )
    schedule = Schedule1F1B(
        PipelineStage(
            stage,
            world.pp_rank,
            2,
            world.device,
            input_args=(example.to("meta") if is_first else between,),
            output_args=(between if is_first else logits,),
        ),
        microbatches,
        loss_fn=loss,
    )
    optimizer = torch.optim.AdamW(stage.parameters())

    def step(number: int) -> None:
        optimizer.zero_grad()
        ids, labels = batch(number)
        if is_first:
            schedule.step(ids, return_outputs=False)
        else:
            schedule.step(target=labels, losses=[], return_outputs=False)
        gradients = [each.grad for each in stage.parameters()]
        square = get_total_norm(gradients).square()
        dist.all_reduce(square)
        clip_grads_with_norm_(stage.parameters(), 1.0, square.sqrt())
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
