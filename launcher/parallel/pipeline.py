"""Pipeline training: stages on their own ranks, over torch.distributed.pipelining.

Corrects cases that torch.distributed.pipelining gets silently wrong: stages run exactly once per
microbatch, tied parameters get the gradients of all stages, and whatever cannot be exact is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler

from launcher.errors import ParallelError
from launcher.parallel import planned
from launcher.parallel.context import ParallelContext
from launcher.parallel.cuts import Pins
from launcher.parallel.dims import ParallelDims, named
from launcher.parallel.gradients import average, clip
from launcher.parallel.graph import in_order
from launcher.parallel.merge_stages import assign_unused, merge_stages
from launcher.parallel.norms import warn_of_few
from launcher.parallel.precision import Precision, autocasting
from launcher.parallel.randomness import Randomness
from launcher.parallel.schedules import scheduled
from launcher.parallel.sections import Section
from launcher.parallel.shapes import Shapes, reshaped, shapes
from launcher.parallel.stages import Stage, cut
from launcher.parallel.ties import Ties, tied_names
from launcher.parallel.weights import Loss, MeanLoss, Valid, WeightedLoss
from launcher.shared import Schedule

__all__ = ["Pipeline"]


class Pipeline:
    """A model whose stages are on the ranks of a replica; each rank holds only its own stages.

    model: on the CPU, the same on all ranks. The pipeline takes it over and empties the parameters
        of other stages. starts: the module at which each stage but the first begins, or Pins.
    example: the model's arguments by name, for one microbatch.
    seed: of random numbers in its modules (dropout); the same numbers with any number of stages.
    loss: of the model's output and the targets of one microbatch; the mean over its samples.
    valid: counts the valid targets among them, where not all are: see `weights`.
    precision: of the forward passes and the loss: see `precision`.
    starts, schedule and precision default to the job's settings.

    Raises ParallelError for models that cannot be cut there, or not exactly.
    """

    def __init__(
        self,
        model: nn.Module,
        world: ParallelContext,
        *,
        starts: Sequence[str] | Pins | None = None,
        example: Mapping[str, object],
        loss: Loss,
        valid: Valid | None = None,
        schedule: Schedule | str | None = None,
        precision: Precision | str | None = None,
        seed: int = 0,
    ) -> None:
        degrees, job = world.degrees, world.job
        if starts is None:
            starts = planned.starts(model, world, example)
        schedule = named(Schedule, schedule or job.schedule, "schedule")
        self._world = world
        #: Later names of tied parameters in the whole model, each with the first name.
        self.tied = tied_names(model)
        self._autocasting = autocasting(precision or job.precision, world.device)
        with self._autocasting():
            stages = cut(model, starts, example)
        _check_count(len(stages), starts, degrees)
        assign_unused(model, stages)
        self._ties = Ties(stages, world)
        own = [
            Section(
                stages[number],
                number,
                is_split=schedule is Schedule.ZERO_BUBBLE,
                autocasting=self._autocasting,
            )
            for number in degrees.stages_of(world.pp_rank)
        ]
        #: This rank's part of the model, under the model's own names.
        self.module = merge_stages(model, [section.stage for section in own])
        _empty_others(model, self.module)
        self.module.to(world.device)
        self._sections = own
        self._randomness = Randomness(self.module, {n for s in own for n in s.stage.drawing}, seed)
        #: Batches so far. They seed the random numbers of modules, so a checkpoint saves them.
        self.steps = 0
        self._sums = _Sums()
        parts = degrees.microbatches * degrees.accumulation
        self._loss = MeanLoss(loss, parts) if valid is None else WeightedLoss(loss, valid)
        self._schedule = scheduled(
            schedule,
            [section.placed(world) for section in own],
            degrees,
            self._weigh,
        )
        if self._world.rank == 0:
            warn_of_few(model, next(map(len, filter(torch.is_tensor, example.values())), 0))
        self._kind = schedule
        self._like = shapes(in_order(model, example).values())
        self._schedules = {self._like: self._schedule}

    @property
    def stages(self) -> list[nn.Module]:
        """The callable stages of this rank, parts of `module`."""
        return [section.stage.module for section in self._sections]

    @property
    def is_first(self) -> bool:
        """True if this rank holds the stage that takes the model's arguments."""
        return self._sections[0].number == 0

    @property
    def is_last(self) -> bool:
        """True if this rank holds the stage that takes the targets."""
        return self._sections[-1].number == self._world.degrees.stages - 1

    def train(self, mode: bool = True) -> None:
        """Set train or eval mode."""
        self.module.train(mode)

    def expect(self, *arguments: torch.Tensor) -> None:
        """Expect microbatches like these arguments from now on, whatever the shapes of the example.

        All ranks of a replica call it, before a batch of another size or length.
        """
        self._like = shapes(arguments)
        if self._like not in self._schedules:
            own = {section.number: section.stage for section in self._sections}
            with self._autocasting():
                found = reshaped(own, arguments, self._world)
            placed = [each.placed(self._world, found[each.number]) for each in self._sections]
            degrees = self._world.degrees
            self._schedules[self._like] = scheduled(self._kind, placed, degrees, self._weigh)
        self._schedule = self._schedules[self._like]

    def step(
        self,
        *arguments: torch.Tensor,
        target: Any = None,
        is_last: bool = True,
        scaler: GradScaler | None = None,
    ) -> torch.Tensor:
        """Run the forward and backward pass of a batch, in microbatches; add to the gradients.

        arguments: of the model, for the whole batch of this replica; needed in the first stage.
        target: needed in the last. is_last: the last of the batches that are accumulated for one
        optimizer step; the gradients are then averaged over all replicas. scaler: scales the
        gradients; see `precision.scaler`. Returns the mean loss of this replica's batch, on all its
        ranks.
        """
        self._run(self._schedule.step, arguments, target, scaler)
        self.steps += 1
        if is_last:
            self._ties.add_gradients()
            average(self.parameters(), self._world)
            self._loss.divide(self.parameters(), self._world)
        return self._broadcast_loss()

    def evaluate(self, *arguments: torch.Tensor, target: Any = None) -> torch.Tensor:
        """Return the mean loss of a batch, on all ranks of this replica, without gradients.

        Arguments as for `step`. Modules are in the mode that `train` has set.
        """
        with torch.no_grad(), self._loss.uncounted():
            self._run(self._schedule.eval, arguments, target, None)
            return self._broadcast_loss()

    def _run(
        self,
        way: Callable[..., Any],
        arguments: tuple[torch.Tensor, ...],
        target: Any,
        scaler: GradScaler | None,
    ) -> None:
        """Send a batch through the pipeline."""
        if self.is_first:
            self._check_batch(arguments)
        self._sums = _Sums(scaler=scaler)
        for section in self._sections:
            section.begin(self._announce)
        way(
            *(arguments if self.is_first else ()),
            target=target if self.is_last else None,
            return_outputs=False,
        )

    def _weigh(self, output: object, target: object) -> torch.Tensor:
        """Return a microbatch's share of the loss, for the backward pass."""
        with self._autocasting():
            loss, weight = self._loss(self._sections[-1].whole(output), target)
        self._sums.losses.append(loss.detach())
        self._sums.weight += weight
        scaler = self._sums.scaler
        return loss if scaler is None else scaler.scale(loss)

    def clip(self, max_norm: float) -> torch.Tensor:
        """Scale the gradients down so that the norm of the whole model is at most `max_norm`.

        Returns the norm before. A tied parameter counts once.
        """
        own = self._ties.counted(self.parameters())
        return clip(self.parameters(), max_norm, self._world, counted=own)

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of this rank's stages."""
        return list(self.module.parameters())

    def _announce(self, stage: Stage, microbatch: int) -> None:
        self._randomness.at(
            step=self.steps,
            replica=self._world.dp_rank,
            microbatch=microbatch,
            earlier=stage.drawing,
        )

    def _check_batch(self, arguments: tuple[torch.Tensor, ...]) -> None:
        count = self._world.degrees.microbatches
        for each in arguments:
            if each.shape[0] % count:
                raise ParallelError(
                    f"a batch of {each.shape[0]} samples cannot be cut into {count} microbatches "
                    "of one size: choose a batch size that it divides, and drop_last=True"
                )
        if (found := shapes(each.chunk(count)[0] for each in arguments)) != self._like:
            raise ParallelError(
                f"the microbatches of this batch are {_words(found)}, and those before were "
                f"{_words(self._like)}: call expect() on all ranks of the replica first"
            )

    def _broadcast_loss(self) -> torch.Tensor:
        sums, degrees = self._sums, self._world.degrees
        mean = torch.zeros((), device=self._world.device)
        if sums.weight:
            mean = torch.stack(sums.losses).float().sum() / sums.weight
        last = degrees.holder(degrees.stages - 1)
        dist.broadcast(mean, group=self._world.pp_group, group_src=last)
        return mean


@dataclass
class _Sums:
    """Losses and weights of the microbatches of one batch, on the rank with the last stage."""

    scaler: GradScaler | None = None
    losses: list[torch.Tensor] = field(default_factory=list)
    weight: float = 0.0


def _words(like: Shapes) -> str:
    return ", ".join(f"{tuple(shape)} {dtype}" for shape, dtype in like)


def _check_count(count: int, starts: Sequence[str] | Pins, degrees: ParallelDims) -> None:
    if count == degrees.stages:
        return
    each = f" x {degrees.virtual_stages}" if degrees.virtual_stages > 1 else ""
    mend = (
        f"pin modules to the stages 0 to {degrees.stages - 1}"
        if isinstance(starts, Pins)
        else "name the first module of each stage but the first"
    )
    made = "pins" if isinstance(starts, Pins) else f"{len(starts)} starts"
    raise ParallelError(
        f"{made} make {count} stages, and the pipeline has {degrees.pipeline}{each}: {mend}"
    )


def _empty_others(model: nn.Module, own: nn.Module) -> None:
    """Free the memory of parameters and buffers that only other ranks hold."""
    kept = {id(each) for each in (*own.parameters(), *own.buffers())}
    for each in (*model.parameters(), *model.buffers()):
        if id(each) not in kept:
            each.data = torch.empty(0, dtype=each.dtype)
