"""Pipeline training: stages on their own ranks, over torch.distributed.pipelining.

Corrects cases that torch.distributed.pipelining gets silently wrong: stages run exactly once per
microbatch, tied parameters get the gradients of all stages, and models for which this is
impossible raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.cuts import Pins
from launcher.parallel.cutting.graph import turn_caches_off
from launcher.parallel.cutting.shapes import Reshaping, Shapes, cut_by_shape, has_weights, shapes
from launcher.parallel.cutting.shared_state import RecordedState
from launcher.parallel.cutting.start_orders import resolve_starts
from launcher.parallel.gradients import added, average, called_once, clip, refuse_partial_norms
from launcher.parallel.norms import warn_about_small_batches
from launcher.parallel.precision import Precision, autocasting, check_scaler
from launcher.parallel.pretrained import PretrainedWeights
from launcher.parallel.randomness import Randomness
from launcher.parallel.recomputation import recompute
from launcher.parallel.running.inputs import Inputs
from launcher.parallel.running.sections import PipelineSchedule, Section, make_schedule
from launcher.parallel.running.stage_shards import StageShards
from launcher.parallel.running.taken_over import TakenOver, send_others_elsewhere
from launcher.parallel.running.ties import Ties, tied_names
from launcher.parallel.sharding import blocks
from launcher.parallel.stage_list import as_model
from launcher.parallel.stages import Stage, assign_unused, cut, merge_stages
from launcher.parallel.tracing import Unfollowed, flatten
from launcher.parallel.weights import Loss, MeanLoss, Valid, WeightedLoss, graphs, trained_by
from launcher.shared import ParallelDims, Schedule, parse_choice

__all__ = ["Pipeline"]


class UnsupportedName(ParallelError, AttributeError):
    """An unsupported name: hasattr() returns False, and other access explains the alternative."""


class Pipeline(Unfollowed):
    """A model whose stages are on the ranks of a replica; each rank holds only its own stages.

    model: the model, on the CPU and equal on all ranks, or a list of its stages. The pipeline takes
        it over and empties the parameters of other stages.
    starts: the module at which each stage but the first begins, or Pins.
    example: the model's arguments by name, for one microbatch.
    loss: computes the mean loss over the samples of one microbatch, from the model's output and the
        targets.
    valid: counts the valid targets of a microbatch, if not all are valid; see `weights`.
    weights: a folder with the model's weights in Hugging Face's layout. Each rank reads those of
        its own stages; the model may be without weights (`pretrained.without_weights`), and is then
        cut by shapes alone.
    precision: the precision of the forward passes and the loss; see `precision`.
    seed: the seed of random numbers in modules (dropout), which are the same with any number of
        stages.

    starts, schedule and precision default to the job's settings. Raises ParallelError for a model
    that cannot be cut at these modules, or not without changing its results.
    """

    def __init__(
        self,
        model: nn.Module | Sequence[nn.Module],
        world: ParallelContext,
        *,
        starts: Sequence[str] | Pins | None = None,
        example: Mapping[str, object],
        loss: Loss,
        valid: Valid | None = None,
        weights: PretrainedWeights | Path | str | None = None,
        schedule: Schedule | str | None = None,
        precision: Precision | str | None = None,
        seed: int = 0,
    ) -> None:
        degrees, job = world.degrees, world.job
        model = as_model(model, starts)
        if starts is None:
            starts = resolve_starts(model, world, example)
        schedule = parse_choice(Schedule, schedule or job.schedule, "schedule")
        self._world = world
        self._model = model
        #: Later names of tied parameters in the whole model, each with the first name.
        self.tied = tied_names(model)
        self._autocasting = autocasting(precision or job.precision, world.device)
        turn_caches_off(model)
        with autocasting(precision or job.precision, torch.device("cpu"))():
            stages = _cut(model, starts, example, loss, has_source=weights is not None)
        _check_count(len(stages), starts, degrees)
        recompute(model, sorted({name for each in stages for name in each.recomputed}))
        self._reshaping = Reshaping(model, starts)
        if world.device.type != "cpu":
            stages = self._as_on_device(stages, example)
        assign_unused(model, stages)
        self._ties = Ties(model, stages, world)
        self._kind = schedule
        self._inputs = Inputs(model, example)
        own = [stages[number] for number in degrees.stages_of(world.pp_rank)]
        #: This rank's part of the model, under the model's own names.
        self.module = merge_stages(model, own)
        if weights is not None:
            _as_weights(weights).load(model, self.module, world.device)
        send_others_elsewhere(model, self.module, stages)
        self.module.to(world.device)
        self._shards = self._shard(model, own)
        modes = [stage.in_mode(training) for stage in own for training in (True, False)]
        drawing = {name for stage in modes for name in stage.drawing if name}
        self._randomness = Randomness(self.module, drawing, seed)  # see `seed_draws` for ""
        #: Batches so far. They seed the random numbers of modules, so a checkpoint saves them.
        self.steps = 0
        self._sums = _Sums()
        #: Parameters with their gradients of earlier optimizer steps, which are kept as they are.
        self._earlier: list[tuple[nn.Parameter, torch.Tensor]] = []
        self._is_exchanged = False
        parts = degrees.microbatches * degrees.accumulation
        self._loss = MeanLoss(loss, parts) if valid is None else WeightedLoss(loss, valid)
        tensors = self._inputs.tensors(self._inputs.named((), example))
        self._like = shapes(tensors)
        self._run_of = {self._like: self._arrange(stages)}
        self._taken_over = TakenOver(
            model,
            stages,
            self,
            is_divided=degrees.pipeline > 1 or world.shard_mesh is not None,
        )
        self._recorded = RecordedState(model, self._taken_over.around)
        if degrees.pipeline > 1:
            refuse_partial_norms(self)
        if self._world.rank == 0:
            warn_about_small_batches(model, next((len(x) for x in tensors if x.ndim), 0))

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

    def train(self, mode: bool = True) -> Pipeline:
        """Set train or eval mode of this rank's modules, as the model's own `train` does."""
        self._recorded.check()
        self.module.train(mode)
        self._taken_over.train(mode)
        self._recorded.renew()
        return self

    def eval(self) -> Pipeline:
        """Set eval mode."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of this rank's stages."""
        self.module.zero_grad(set_to_none)

    def expect(self, *arguments: object, **named: object) -> None:
        """Expect microbatches of the shapes of these arguments from now on.

        All ranks of a replica call it, before a batch of another size or length. For new shapes the
        model is traced again, without computing anything.

        Raises ParallelError for a model whose modules depend on the values of tensors.
        """
        given = self._inputs.named(arguments, named)
        like = shapes(self._inputs.tensors(given))
        if self._shards is not None and like not in self._run_of:
            raise ParallelError(
                f"microbatches of the shapes {_describe(like)} are expected, but a pipeline with a "
                f"shard_degree has only those of its example, {_describe(self._like)}: pad all "
                "batches to these"
            )
        self._like = like
        if self._like not in self._run_of:
            self._recorded.check()
            with (
                self._autocasting(),
                self._randomness.paused(),
                self._taken_over.released(),
            ):
                stages = self._reshaping.stages(given, self._world.device)
            self._run_of[self._like] = self._arrange(stages)

    def _as_on_device(self, stages: list[Stage], example: Mapping[str, object]) -> list[Stage]:
        """Return the stages with the dtypes and layouts that values between them have on the GPU.

        Autocasting and kernels choose others than on the CPU, where the model was cut. A model that
        depends on the values of tensors keeps those of the CPU; where they differ, torch refuses
        the first batch.
        """
        try:
            with self._autocasting():
                return self._reshaping.stages(example, self._world.device)
        except ParallelError:
            return stages

    def _shard(self, model: nn.Module, own: Sequence[Stage]) -> StageShards | None:
        """Shard this rank's stages as the degrees say, in place."""
        if self._world.shard_mesh is None:
            return None
        for stage in own:
            stage.move(self._world.device)
        graphs = dict.fromkeys(
            stage.in_mode(training).module for stage in own for training in (True, False)
        )
        found = StageShards(
            self.module,
            list(graphs),
            list(blocks(model)),
            self._world,
            self._world.shard_mesh,
            keep_gathered=self._kind is Schedule.ZERO_BUBBLE,
        )
        self._ties.replace(found.replaced)
        self.module = found.module
        return found

    def _arrange(self, stages: Sequence[Stage]) -> _Arranged:
        """Return the schedules of this rank's stages, in both modes."""
        train = self._arrange_mode(stages)
        if all(stage.evaluation is None for stage in stages):
            return _Arranged(train=train, evaluation=train)
        others = [stage.in_mode(training=False) for stage in stages]
        return _Arranged(train=train, evaluation=self._arrange_mode(others))

    def _arrange_mode(self, stages: Sequence[Stage]) -> _Run:
        world, shards = self._world, self._shards
        own = [
            Section(
                stages[number],
                number,
                is_split=self._kind is Schedule.ZERO_BUBBLE,
                autocasting=self._autocasting,
                call=None if shards is None else shards.caller(stages[number].module),
            )
            for number in world.degrees.stages_of(world.pp_rank)
        ]
        for section in own:
            if shards is None:
                section.stage.move(world.device)
            self._randomness.seed_draws(section.stage.module.graph)
        placed = [section.pipeline_stage(world) for section in own]
        schedule = make_schedule(self._kind, placed, world.degrees, self._weighted_loss)
        return _Run(sections=own, schedule=schedule)

    @property
    def _current(self) -> _Run:
        """The run for the expected shapes and the mode that `train` has set."""
        arranged = self._run_of[self._like]
        return arranged.train if self.module.training else arranged.evaluation

    @property
    def _sections(self) -> list[Section]:
        return self._current.sections

    def step(
        self,
        *arguments: object,
        target: object = None,
        is_last: bool = True,
        scaler: GradScaler | None = None,
        **named: object,
    ) -> torch.Tensor:
        """Run the forward and backward pass of a batch, in microbatches; add to the gradients.

        Returns the mean loss of this replica's batch, on all ranks of the replica.

        arguments, named: the model's arguments for the replica's whole batch, on the first stage,
            by position or by name as in the example. A tensor whose shape is that of the example is
            passed to each microbatch whole; not all of them can be.
        target: the targets, on the last stage.
        is_last: true for the last of the batches that are accumulated for one optimizer step; the
            gradients are then averaged over all replicas.
        scaler: scales the gradients; see `precision.scaler`.
        """
        check_scaler(scaler, self._world)
        given = self._split(arguments, named)
        self._set_aside_exchanged()
        with called_once(self.named_parameters(), self._unsuited_for_hooks):
            self._run(self._current.schedule.step, given, target, scaler)
        self.steps += 1
        if is_last:
            self._exchange_gradients()
            self._add_earlier()
        self._is_exchanged = is_last
        return self._broadcast_loss()

    def _set_aside_exchanged(self) -> None:
        """Set aside gradients that were exchanged and not cleared, if this would count them twice.

        Sums over tied copies and quotients by valid labels are those of one optimizer step.
        """
        if not self._is_exchanged:
            return
        is_weighted = isinstance(self._loss, WeightedLoss)
        for each in self.parameters() if is_weighted else self._ties.parameters:
            if each.grad is not None:
                self._earlier.append((each, each.grad))
                each.grad = None

    def _add_earlier(self) -> None:
        with torch.no_grad():
            for each, earlier in self._earlier:
                each.grad = added(earlier, each.grad)
        self._earlier.clear()

    def _unsuited_for_hooks(self, parameter: nn.Parameter) -> str:
        """Return why a gradient is not that of the batch after the backward passes, or ""."""
        if self._shards is not None:
            return "is a share of it, since the stage is sharded"
        if any(parameter is each for each in self._ties.parameters):
            return "other stages have a part of, since it is tied"
        if isinstance(self._loss, WeightedLoss):
            return "is divided by the number of valid labels later"
        return ""

    def _exchange_gradients(self) -> None:
        """Add the gradients of tied parameters, and average all over the replicas."""
        if self._shards is not None:
            self._shards.reduce()
            self._ties.add_gradients()
        else:
            self._ties.add_gradients()
            average(self.parameters(), self._world)
        self._loss.divide(self.parameters(), self._world)

    def evaluate(self, *arguments: object, target: object = None, **named: object) -> torch.Tensor:
        """Return the mean loss of a batch, on all ranks of this replica, without gradients.

        Arguments as for `step`. Modules are in the mode that `train` has set.
        """
        with torch.no_grad(), self._loss.without_counting():
            given = self._split(arguments, named)
            self._run(self._current.schedule.eval, given, target, None)
            if self._shards is not None:
                self._shards.release()
            return self._broadcast_loss()

    def _run(
        self,
        run: Callable[..., Any],
        arguments: Sequence[torch.Tensor],
        target: object,
        scaler: GradScaler | None,
    ) -> None:
        """Send a batch through the pipeline."""
        self._recorded.check()
        self._sums = _Sums(scaler=scaler)
        for section in self._sections:
            section.begin(self._on_microbatch)
        try:
            run(
                *arguments,
                target=target if self.is_last else None,
                return_outputs=False,
            )
        except RuntimeError as error:  # in which torch wraps the errors of stages
            if isinstance(error.__cause__, ParallelError):
                raise error.__cause__ from None
            raise

    def _weighted_loss(self, output: object, target: object) -> torch.Tensor:
        """Return a microbatch's share of the loss, for the backward pass."""
        given = self._sections[-1].unflatten(output)
        computed = list(graphs(given))
        with self._autocasting():
            loss, weight = self._loss(given, target)
        self._check_trained(loss, given, computed)
        self._sums.losses.append(loss.detach())
        self._sums.weight += weight
        scaler = self._sums.scaler
        return loss if scaler is None else scaler.scale(loss)

    def _check_trained(self, loss: torch.Tensor, output: object, computed: list[object]) -> None:
        """Raise ParallelError for parameters of a loss, which no pipeline would train alike."""
        if self._world.degrees.world == 1 or not isinstance(loss, torch.Tensor):
            return
        for leaf in trained_by(loss, beyond=computed):
            known = {id(each) for each in (*flatten(output)[0], *self.parameters())}
            if id(leaf) not in known:
                raise ParallelError(
                    f"the loss trains a parameter of shape {list(leaf.shape)} that is not in the "
                    "model: replicas would not average its gradient, and nobody would save or clip "
                    "it; make the loss a part of the model, whose forward takes the targets and "
                    "returns it (loss=lambda output, target: output), or freeze it"
                )

    def clip(self, max_norm: float) -> torch.Tensor:
        """Scale the gradients down so that the norm of the whole model is at most `max_norm`.

        Returns the norm before clipping. A tied parameter counts once.
        """
        own = self._ties.counted(self.parameters())
        return clip(self.parameters(), max_norm, self._world, counted=own)

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(nn.Module, name):
            raise UnsupportedName(
                f"Pipeline.{name} does not exist, since each rank has only a part of the model: "
                f"pipeline.module.{name} is that of this rank's part, under the model's own names, "
                "and Checkpoints save and load the whole"
            )
        raise AttributeError(f"'Pipeline' object has no attribute {name!r}")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UnsupportedName(
            "a Pipeline cannot be copied or pickled, since each rank has only a part of the model: "
            "save it with Checkpoints"
        )

    def holder(self, stage: int) -> int:
        """Return the rank of a replica that holds a stage."""
        return self._world.degrees.holder(stage)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of this rank's stages, with their names in the model."""
        return iter(self.module.named_parameters())

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of this rank's stages."""
        return list(self.module.parameters())

    def _on_microbatch(self, stage: Stage, microbatch: int) -> None:
        self._randomness.set_position(
            step=self.steps,
            replica=self._world.dp_rank,
            microbatch=microbatch,
            earlier=stage.drawing,
        )

    def _split(
        self, arguments: tuple[object, ...], named: Mapping[str, object]
    ) -> list[torch.Tensor]:
        """Return the tensors of a batch, which can be split into microbatches; none elsewhere."""
        if not self.is_first:
            return []
        count = self._world.degrees.microbatches
        tensors = self._inputs.tensors(self._inputs.named(arguments, named))
        likes = [shape for shape, _ in self._like]
        if len(tensors) == len(likes) and count > 1:
            # What every microbatch gets whole: positions, masks.
            is_whole = [
                each.shape == like and each.ndim > 0
                for each, like in zip(tensors, likes, strict=True)
            ]
            if likes and all(is_whole):
                raise ParallelError(
                    f"this batch has the shapes of a single microbatch, {_describe(self._like)}, "
                    f"but is split into {count}: pad it to {count} times as many samples, or use "
                    "drop_last=True if it is the last of an epoch"
                )
            tensors = [
                torch.cat([each] * count) if whole else each
                for each, whole in zip(tensors, is_whole, strict=True)
            ]
        self._check_batch(tensors, count)
        return tensors

    def _check_batch(self, tensors: Sequence[torch.Tensor], count: int) -> None:
        for each in tensors:
            if not each.ndim:
                raise ParallelError(
                    "an argument of the model is a single number as a tensor, which cannot be "
                    "split into microbatches: pass one number per sample, or a Python number"
                )
            if each.shape[0] % count:
                raise ParallelError(
                    f"a batch of {each.shape[0]} samples cannot be split into {count} microbatches "
                    f"of equal size: use a batch size that is divisible by {count}, and "
                    "drop_last=True"
                )
        if (found := shapes(each.chunk(count)[0] for each in tensors)) != self._like:
            raise ParallelError(
                f"the microbatches of this batch have the shapes {_describe(found)}, but the "
                f"pipeline expects {_describe(self._like)}: pad the batch to these shapes, or call "
                "expect() on all ranks of the replica first"
            )

    def _broadcast_loss(self) -> torch.Tensor:
        sums, degrees = self._sums, self._world.degrees
        mean = torch.zeros((), device=self._world.device)
        if sums.weight:
            mean = torch.stack(sums.losses).float().sum() / sums.weight
        last = degrees.holder(degrees.stages - 1)
        dist.broadcast(mean, group=self._world.pp_group, group_src=last)
        return mean


@dataclass(frozen=True, kw_only=True)
class _Arranged:
    """The runs for microbatches of one shape, in both modes: the same one for most models."""

    train: _Run
    evaluation: _Run


@dataclass(frozen=True, kw_only=True)
class _Run:
    """This rank's stages and their schedule, for microbatches of one shape, in one mode."""

    sections: list[Section]
    schedule: PipelineSchedule


@dataclass
class _Sums:
    """Losses and weights of the microbatches of one batch, on the rank with the last stage."""

    scaler: GradScaler | None = None
    losses: list[torch.Tensor] = field(default_factory=list)
    weight: float = 0.0


def _cut(
    model: nn.Module,
    starts: Sequence[str] | Pins,
    example: Mapping[str, object],
    loss: Loss,
    *,
    has_source: bool,
) -> list[Stage]:
    if has_weights(model):
        return cut(model, starts, example, apart=True, loss=loss)
    if not has_source:
        raise ParallelError(
            "the model has parameters without storage: give the pipeline weights=, the folder that "
            "they are read from"
        )
    return cut_by_shape(model, starts, example, loss)


def _as_weights(weights: PretrainedWeights | Path | str) -> PretrainedWeights:
    return weights if isinstance(weights, PretrainedWeights) else PretrainedWeights(weights)


def _describe(like: Shapes) -> str:
    return ", ".join(f"{tuple(shape)} {dtype}" for shape, dtype in like)


def _check_count(count: int, starts: Sequence[str] | Pins, degrees: ParallelDims) -> None:
    if count == degrees.stages:
        return
    each = f" x {degrees.virtual_stages}" if degrees.virtual_stages > 1 else ""
    fix = (
        f"pin modules to the stages 0 to {degrees.stages - 1}"
        if isinstance(starts, Pins)
        else "name the first module of each stage but the first"
    )
    made = "pins" if isinstance(starts, Pins) else f"{len(starts)} starts"
    raise ParallelError(
        f"{made} make {count} stages, but the pipeline has {degrees.pipeline}{each}: {fix}"
    )
