"""In which order stages work on microbatches: the schedules of torch.distributed.pipelining."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

from launcher.contract import Schedule
from launcher.errors import ParallelError
from launcher.parallel.degrees import Degrees


def scheduled(
    schedule: Schedule,
    stages: Sequence[PipelineStage],
    degrees: Degrees,
    loss: Callable[[Any, Any], Any],
) -> Any:
    """The stages of this rank under a schedule, whose gradients are sums over the microbatches.

    loss: of a last stage's output and the targets of one microbatch. Raises ParallelError.
    """
    check(schedule, degrees)
    # With scale_grads, torch would scale gradients of earlier batches once more.
    options: dict[str, Any] = {"loss_fn": loss, "scale_grads": False}
    many, several = degrees.microbatches, list(stages)
    if schedule is Schedule.SIMPLE:
        return ScheduleGPipe(several[0], many, **options)
    if schedule is Schedule.ZERO_BUBBLE:
        return ScheduleInterleavedZeroBubble(several, many, **options)
    if degrees.virtual_stages > 1:
        return ScheduleInterleaved1F1B(several, many, **options)
    return Schedule1F1B(several[0], many, **options)


def check(schedule: Schedule, degrees: Degrees) -> None:
    """Raises ParallelError for degrees that a schedule cannot have."""
    if problems := list(_problems(schedule, degrees)):
        raise ParallelError("; ".join(problems))


def _problems(schedule: Schedule, degrees: Degrees) -> Iterator[str]:
    ranks, many = degrees.pipeline, degrees.microbatches
    if schedule is Schedule.SIMPLE:
        if degrees.virtual_stages > 1:
            yield (
                f"schedule 'simple' has one stage on each rank, and virtual_stages is "
                f"{degrees.virtual_stages}: use 'interleaved'"
            )
        return
    if many < ranks:
        yield (
            f"schedule {schedule.value!r} needs a microbatch for each of {ranks} ranks, and there "
            f"are {many}: use {ranks} or more, or schedule 'simple'"
        )
    elif (degrees.virtual_stages > 1 or schedule is Schedule.ZERO_BUBBLE) and many % (
        rounds := many // ranks
    ):
        yield (
            f"{many} microbatches cannot go in {rounds} equal rounds over {ranks} ranks, as "
            f"schedule {schedule.value!r} has them: use {many // ranks * ranks}"
        )
