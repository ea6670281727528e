"""Stages as torch.distributed.pipelining runs them, and the order of their microbatches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.randomness import torch_states
from launcher.parallel.stages import Stage, Value
from launcher.shared import Orders, ParallelDims, Schedule

PipelineSchedule: TypeAlias = (
    ScheduleGPipe | Schedule1F1B | ScheduleInterleaved1F1B | ScheduleInterleavedZeroBubble
)
_TENSOR = object()


class Section(nn.Module):  # type: ignore[misc] # torch types it as Any
    """A stage whose arguments and output are flat tuples of contiguous tensors.

    Its module gets them in the memory layout that they have in the whole model: dropout, for one,
    drops elements by their order in memory.

    number: among all stages. is_split: true if the backward pass computes input gradients first and
        weight gradients later. torch then detaches outputs in place, which breaks views and what
        autograd has saved of them. autocasting: creates the context of a forward pass.
        call: calls the stage's module, if something else must be done first.
    """

    def __init__(
        self,
        stage: Stage,
        number: int,
        *,
        is_split: bool = False,
        autocasting: Callable[[], AbstractContextManager[object]] = nullcontext,
        call: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__()
        self._is_split = is_split
        self._autocasting = autocasting
        self.stage = stage
        self.number = number
        self._module = stage.module
        self._call = call or stage.module
        self._output_structure: tuple[list[Any], TreeSpec] | None = None
        self._on_microbatch: Callable[[Stage, int], None] = lambda stage, microbatch: None
        self._microbatch = 0
        self._is_last = False

    def begin(self, on_microbatch: Callable[[Stage, int], None]) -> None:
        """Start a batch. on_microbatch: called before each microbatch, with its number."""
        self._on_microbatch, self._microbatch = on_microbatch, 0

    def forward(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        """Run the stage on one microbatch and return its output tensors."""
        self._on_microbatch(self.stage, self._microbatch)  # schedules run them in order
        self._microbatch += 1
        if self._is_split:
            for each in arguments:
                if torch.is_tensor(each) and each.requires_grad:
                    each.register_hook(torch.Tensor.contiguous)  # it is sent as it is
        if self.stage.inputs:
            values = zip(arguments, self.stage.inputs, strict=True)
            arguments = tuple(_laid_out(each, value.like) for each, value in values)
        before = torch_states()
        with self._autocasting():
            leaves, spec = tree_flatten(self._call(*arguments))
        self._check_seeded(before)
        places = [_TENSOR if torch.is_tensor(leaf) else leaf for leaf in leaves]
        self._output_structure = places, spec
        outputs = [leaf for leaf in leaves if torch.is_tensor(leaf)]
        if not self._is_last:
            self._check_unfrozen(outputs)
        return tuple(map(self._sendable, outputs))

    def _check_seeded(self, before: list[torch.Tensor]) -> None:
        """Raise ParallelError for random numbers that were not drawn by what is seeded."""
        if not all(map(torch.equal, before, torch_states())):
            raise ParallelError(
                f"stage {self.number} draws random numbers where it drew none when the pipeline "
                "was created (a dropout rate was 0, or a module was in another mode), so they are "
                "not seeded: create the pipeline with the highest rate, and lower it afterwards"
            )

    def _check_unfrozen(self, outputs: list[torch.Tensor]) -> None:
        """Raise ParallelError for an output whose gradient the next stage would not send."""
        for value, output in zip(self.stage.outputs, outputs, strict=True):
            if output.requires_grad and not value.like.requires_grad:
                raise ParallelError(
                    f"stage {self.number} has parameters that were frozen when the pipeline was "
                    "created, and the next stage sends no gradients for them: set requires_grad "
                    "before, or create the pipeline again"
                )

    def _sendable(self, tensor: torch.Tensor) -> torch.Tensor:
        if self._is_split:
            return tensor.clone(memory_format=torch.contiguous_format)
        return tensor.contiguous()

    def unflatten(self, tensors: torch.Tensor | tuple[torch.Tensor, ...]) -> Any:
        """Rebuild the structure that the stage returned from its output tensors."""
        assert self._output_structure is not None  # schedules call this after a forward pass
        remaining = iter((tensors,) if torch.is_tensor(tensors) else tensors)
        leaves, spec = self._output_structure
        filled = [next(remaining) if leaf is _TENSOR else leaf for leaf in leaves]
        return tree_unflatten(filled, spec)

    def pipeline_stage(self, world: ParallelContext) -> PipelineStage:
        """Return a PipelineStage with given shapes; torch would run it once more to infer them."""
        self._is_last = self.number == world.degrees.stages - 1
        return _GivenShapes(
            self,
            self.number,
            world.degrees.stages,
            world.device,
            input_args=_buffers(self.stage.inputs),
            output_args=_buffers(self.stage.outputs),
            group=world.pp_group,
        )


class _GivenShapes(PipelineStage):  # type: ignore[misc] # torch types it as Any
    """A PipelineStage that takes any first arguments: `Pipeline` has checked their shapes."""

    def _validate_fwd_input(self, args: object, kwargs: object) -> None:
        """Accept the arguments; torch before 2.13 would compare them with `input_args`."""


def _buffers(values: tuple[Value, ...]) -> tuple[torch.Tensor, ...]:
    """Return what the values are received into: contiguous tensors, without storage."""
    return tuple(
        torch.empty_like(
            value.like,
            memory_format=torch.contiguous_format,
            requires_grad=value.like.requires_grad,
        )
        for value in values
    )


def _laid_out(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a contiguous tensor with the strides of another one, which may be in another order."""
    if tensor.stride() == like.stride():
        return tensor
    order = sorted(range(like.ndim), key=lambda dim: (-like.stride(dim), dim))
    places = [order.index(dim) for dim in range(like.ndim)]
    return tensor.permute(order).contiguous().permute(places)


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
    _check(schedule, degrees)
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


def _check(schedule: Schedule, degrees: ParallelDims) -> None:
    """Raise ParallelError for degrees that a schedule does not support."""
    Orders(
        schedule=schedule,
        ranks=degrees.pipeline,
        microbatches=degrees.microbatches,
        virtual_stages=degrees.virtual_stages,
    )
