"""Stages on ranks of their own, through which microbatches go, by torch.distributed.pipelining.

What that does silently wrong with models that are given to it as they are is seen to here: stages
are never run more often than there are microbatches, tied parameters get the gradients of all
stages, and what cannot be exact is refused.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from launcher.errors import ParallelError
from launcher.parallel.degrees import named
from launcher.parallel.gradients import average, clip
from launcher.parallel.randomness import Randomness
from launcher.parallel.remainder import settle
from launcher.parallel.stages import Stage, Value, cut
from launcher.parallel.ties import Ties, tied_names
from launcher.parallel.world import World

Loss = Callable[[Any, Any], torch.Tensor]


class Schedule(str, enum.Enum):
    """In which order a stage works on microbatches.

    Both idle for (p - 1) / (m + p - 1) of a step with p stages and m microbatches; the second holds
    the activations of min(m, p - stage) microbatches at most, the first those of m. The names are
    those of SageMaker's model-parallel library v1; the second is elsewhere called 1F1B.
    """

    SIMPLE = "simple"
    INTERLEAVED = "interleaved"


_SCHEDULES = {Schedule.SIMPLE: ScheduleGPipe, Schedule.INTERLEAVED: Schedule1F1B}


class Pipeline:
    """A model whose stages are on the ranks of a replica; each holds its own stage alone.

    model: on the CPU, the same on all ranks. It is taken over: parameters of other stages are
        emptied. starts: the module at which each stage but the first begins.
    example: the model's arguments by name, for one microbatch.
    seed: of what its modules draw (dropout); the same numbers with any number of stages.
    loss: of what the model returns and the targets of one microbatch; the mean over its samples.

    Raises ParallelError for models that cannot be cut there, or not exactly.
    """

    def __init__(
        self,
        model: nn.Module,
        world: World,
        *,
        starts: Sequence[str],
        example: Mapping[str, Any],
        loss: Loss,
        schedule: Schedule | str = Schedule.INTERLEAVED,
        seed: int = 0,
    ) -> None:
        degrees = world.degrees
        if len(starts) + 1 != degrees.pipeline:
            raise ParallelError(
                f"{len(starts)} starts make {len(starts) + 1} stages, and the pipeline has "
                f"{degrees.pipeline}: name the first module of each stage but the first"
            )
        self._world = world
        #: Names of tied parameters in the whole model, each with the first one of its parameter.
        self.tied = tied_names(model)
        stages = cut(model, starts, example)
        settle(model, stages)
        self._ties = Ties(stages, world)
        #: This rank's stage, with the model's own names.
        self.module = stages[world.pp_rank].module
        _empty_others(model, self.module)
        self.module.to(world.device)
        self._ends = _Ends(self.module, is_last=world.pp_rank == degrees.pipeline - 1)
        self._randomness = Randomness(self.module, stages[world.pp_rank].drawing, seed)
        #: Batches so far: they seed what modules draw, and so must be known to go on.
        self.steps = 0
        self._schedule = _SCHEDULES[named(Schedule, schedule, "schedule")](
            _stage(self._ends, stages[world.pp_rank], world),
            degrees.microbatches,
            loss_fn=lambda output, target: loss(self._ends.whole(output), target) / self._parts,
            scale_grads=False,  # which would scale those of earlier batches once more
        )

    @property
    def _parts(self) -> int:
        """Microbatches of one optimizer step, whose losses are averaged."""
        return self._world.degrees.microbatches * self._world.degrees.accumulation

    @property
    def is_first(self) -> bool:
        """Whether this rank's stage takes the model's arguments."""
        return self._world.pp_rank == 0

    def train(self, mode: bool = True) -> None:
        self.module.train(mode)

    def step(
        self, *arguments: torch.Tensor, target: Any = None, is_last: bool = True
    ) -> torch.Tensor:
        """Forward and backward pass of a batch, cut into microbatches; adds to the gradients.

        arguments: of the model, for the whole batch of this replica; needed in the first stage.
        target: needed in the last. is_last: of the batches that are accumulated for one optimizer
        step; then the gradients are made those of all replicas. Returns the mean loss of this
        replica's batch, on all its ranks.
        """
        losses = self._run(self._schedule.step, arguments, target)
        self.steps += 1
        if is_last:
            self._ties.add_gradients()
            average(self.parameters(), self._world)
        return self._tell_loss(losses)

    def evaluate(self, *arguments: torch.Tensor, target: Any = None) -> torch.Tensor:
        """The mean loss of a batch, on all ranks of this replica; nothing is learned.

        Arguments as for `step`. Modules are in the mode that `train` has set.
        """
        with torch.no_grad():
            return self._tell_loss(self._run(self._schedule.eval, arguments, target))

    def _run(
        self, way: Callable[..., Any], arguments: tuple[torch.Tensor, ...], target: Any
    ) -> list[torch.Tensor]:
        """Send a batch through the pipeline; the losses of its microbatches, in the last stage."""
        if self.is_first:
            self._check_batch(arguments)
        losses: list[torch.Tensor] = []
        self._ends.begin(self._announce)
        way(
            *(arguments if self.is_first else ()),
            target=target if self._ends.is_last else None,
            losses=losses,
            return_outputs=False,
        )
        return losses

    def clip(self, max_norm: float) -> torch.Tensor:
        """Scale the gradients down to a norm of `max_norm`, that of the whole model, which is
        returned; a tied parameter counts once.
        """
        own = self._ties.counted(self.parameters())
        return clip(self.parameters(), max_norm, self._world, counted=own)

    def parameters(self) -> list[nn.Parameter]:
        """Of this rank's stage."""
        return list(self.module.parameters())

    def _announce(self, microbatch: int) -> None:
        self._randomness.at(step=self.steps, replica=self._world.dp_rank, microbatch=microbatch)

    def _check_batch(self, arguments: tuple[torch.Tensor, ...]) -> None:
        count = self._world.degrees.microbatches
        for each in arguments:
            if each.shape[0] % count:
                raise ParallelError(
                    f"a batch of {each.shape[0]} samples cannot be cut into {count} microbatches "
                    "of one size: choose a batch size that it divides, and drop_last=True"
                )

    def _tell_loss(self, losses: list[torch.Tensor]) -> torch.Tensor:
        mean = torch.zeros((), device=self._world.device)
        if losses:
            mean = torch.stack([loss.detach().float() for loss in losses]).sum()
            mean *= self._world.degrees.accumulation
        dist.broadcast(mean, group=self._world.pp_group, group_src=self._world.degrees.pipeline - 1)
        return mean


class _Ends(nn.Module):  # type: ignore[misc] # torch says Any of it
    """A stage as the schedule wants it: what comes out is a flat tuple of contiguous tensors."""

    def __init__(self, module: nn.Module, *, is_last: bool) -> None:
        super().__init__()
        self._module = module
        self.is_last = is_last
        self._left: tuple[list[Any], TreeSpec] | None = None
        self._begin: Callable[[int], None] = lambda microbatch: None
        self._microbatch = 0

    def begin(self, announce: Callable[[int], None]) -> None:
        """A batch begins. announce: called with the number of each microbatch before it."""
        self._begin, self._microbatch = announce, 0

    def forward(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        self._begin(self._microbatch)  # schedules run them in order
        self._microbatch += 1
        leaves, spec = tree_flatten(self._module(*arguments))
        self._left = [None if torch.is_tensor(leaf) else leaf for leaf in leaves], spec
        return tuple(leaf.contiguous() for leaf in leaves if torch.is_tensor(leaf))

    def whole(self, tensors: torch.Tensor | tuple[torch.Tensor, ...]) -> Any:
        """What the model returned, of which these are the tensors."""
        assert self._left is not None  # the schedule asks after a forward pass
        rest = iter((tensors,) if torch.is_tensor(tensors) else tensors)
        leaves, spec = self._left
        return tree_unflatten([next(rest) if leaf is None else leaf for leaf in leaves], spec)


def _stage(module: _Ends, stage: Stage, world: World) -> PipelineStage:
    """With its inputs and outputs known, or torch would run the stage once more to see them."""
    return PipelineStage(
        module,
        world.pp_rank,
        world.degrees.pipeline,
        world.device,
        input_args=_likes(stage.inputs),
        output_args=_likes(stage.outputs),
        group=world.pp_group,
    )


def _likes(values: tuple[Value, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(value.like for value in values)


def _empty_others(model: nn.Module, own: nn.Module) -> None:
    """Give back the memory of what other ranks have."""
    kept = {id(each) for each in (*own.parameters(), *own.buffers())}
    for each in (*model.parameters(), *model.buffers()):
        if id(each) not in kept:
            each.data = torch.empty(0, dtype=each.dtype)
