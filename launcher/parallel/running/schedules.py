"""Schedules of torch.distributed.pipelining: the order in which stages process microbatches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from launcher.shared import Orders, ParallelDims, Schedule

PipelineSchedule: TypeAlias = (
    ScheduleGPipe | Schedule1F1B | ScheduleInterleaved1F1B | ScheduleInterleavedZeroBubble
)


def make_schedule(
    schedule: Schedule,
    stages: Sequence[PipelineStage],
    degrees: ParallelDims,
    loss: Callable[[object, object], object],
) -> PipelineSchedule:
    """Return a schedule over this rank's stages; gradients are sums over the microbatches.

    loss: computes the loss of the last stage's output and the targets, for one microbatch. Raises
    ParallelError.
    """
    check(schedule, degrees)
    # With scale_grads, torch would scale the gradients of earlier batches again.
    options: dict[str, Any] = {"loss_fn": loss, "scale_grads": False}
    microbatches, stages = degrees.microbatches, list(stages)
    if schedule is Schedule.SIMPLE:
        return ScheduleGPipe(stages[0], microbatches, **options)
    if schedule is Schedule.ZERO_BUBBLE:
        return ScheduleInterleavedZeroBubble(stages, microbatches, **options)
    if degrees.virtual_stages > 1:
        return ScheduleInterleaved1F1B(stages, microbatches, **options)
    return Schedule1F1B(stages[0], microbatches, **options)


def check(schedule: Schedule, degrees: ParallelDims) -> None:
    """Raise ParallelError for degrees that a schedule does not support."""
    Orders(
        schedule=schedule,
        ranks=degrees.pipeline,
        microbatches=degrees.microbatches,
        virtual_stages=degrees.virtual_stages,
    )
