"""`DistributedModel`: a model whose stages are on the ranks of a replica, as one module."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.hooks import RemovableHandle

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.pipeline import Pipeline, UnsupportedName
from launcher.parallel.recomputation import recompute
from launcher.parallel.running.taken_over import HOOKS, refusals
from launcher.parallel.running.ties import tied_names
from launcher.parallel.smp.call_interception import Arguments, CallInterceptor
from launcher.parallel.smp.model_contexts import cuts
from launcher.parallel.smp.smp_session import session
from launcher.parallel.smp.states import PARTIAL, merged
from launcher.parallel.smp.step_arguments import ArgumentSource, checksum

#: Ignored: these control smp's search for a partition and DDP's buckets, and do not affect results.
_IGNORED = {
    "trace_device",
    "trace_execution_times",
    "trace_memory_usage",
    "overlapping_allreduce",
    "bucket_cap_mb",
    "broadcast_buffers",
    "gradient_as_bucket_view",
}


_NO_TENSOR_PARALLELISM = "there is no tensor parallelism, so leave it out"
#: Methods of smp that are not there, and what to do instead.
_UNSUPPORTED = {
    "join": "give all replicas the same number of batches, with drop_last=True",
    "register_comm_hook": "set compression in a data_parallel job, or leave it out",
    **dict.fromkeys(
        (
            "distributed_modules",
            "is_distributed_parameter",
            "is_distributed_buffer",
            "is_scaled_batch_parameter",
            "is_scaled_batch_buffer",
            "default_reducer_named_parameters",
            "scaled_batch_reducer_named_parameters",
        ),
        _NO_TENSOR_PARALLELISM,
    ),
}


class DistributedModel(nn.Module):  # type: ignore[misc] # torch types it as Any
    """Wraps the one model of a script, for calls and training in functions decorated with `@step`.

    backward_passes_per_step: steps whose gradients are summed before replicas exchange them.
    average_grads_across_microbatches: if true, gradients are the mean over the microbatches, else
        the sum.
    options: other options of smp, if they do not affect results.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        backward_passes_per_step: int = 1,
        average_grads_across_microbatches: bool = True,
        **options: object,
    ) -> None:
        super().__init__()
        if unknown := set(options) - _IGNORED:
            raise ParallelError(
                f"smp.DistributedModel does not support {', '.join(sorted(unknown))}: leave it out"
            )
        if session().models:
            raise ParallelError(
                "this script has a smp.DistributedModel already: a script can have only one"
            )
        session().models.append(self)
        self.__dict__.update(refusals(self, HOOKS))  # torch does not call it: stages and steps do
        self.module = module
        self._passes_per_step = backward_passes_per_step
        self.averages = average_grads_across_microbatches
        self.signature = inspect.signature(module.forward)
        self._pipeline: Pipeline | None = None
        self._interceptor: CallInterceptor | None = None
        self._names = list(module.state_dict())
        self._tied = tied_names(module)
        self._on_partition: list[Callable[[], None]] = []
        self._hooks: dict[int, Callable[[Any, Any], object]] = OrderedDict()
        self._recomputed: list[str] = []
        self._loss: Callable[[Any, int], torch.Tensor] | None = None
        #: The source of the arguments of its steps.
        self.arguments = ArgumentSource()
        #: The precision of its stages, as in ParallelPart; known once it is partitioned.
        self.precision: str | None = None
        self._steps = 0
        self._passes = 0
        #: Seed of random numbers in it and its steps; the first stage's once it is partitioned.
        self.seed = 0

    # Steps ------------------------------------------------------------------------------------

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Call the model, within a step."""
        return self._current_interceptor("called").call(args, kwargs)

    def backward(self, tensors: object, grad_tensors: object = None) -> None:
        """Replace torch.autograd.backward; the pipeline runs its backward pass when it is due."""
        self._current_interceptor("trained").backward(tensors, grad_tensors)

    def _current_interceptor(self, what: str) -> CallInterceptor:
        if self._interceptor is None:
            raise ParallelError(
                f"the model is {what} outside a step: do it in a function decorated with @smp.step"
            )
        return self._interceptor

    def begin_step(self, loss: Callable[[object, int], torch.Tensor]) -> int:
        """Start a step and return its number.

        loss: computes the loss of the model's output and a microbatch's number.
        """
        self._loss = loss
        self._steps += 1
        return self._steps

    def count_backward_pass(self) -> bool:
        """Count a backward pass; return whether replicas exchange gradients after it."""
        self._passes += 1
        return self._passes % self._passes_per_step == 0

    @property
    def position(self) -> list[int]:
        """The numbers of steps, backward passes and batches so far. They seed random numbers."""
        return [self._steps, self._passes, self.pipeline.steps]

    def move_to(self, position: Sequence[int]) -> None:
        """Continue from a position, now or once the model is partitioned."""
        self._steps, self._passes, batches = position
        self.when_partitioned(lambda: setattr(self.pipeline, "steps", batches))

    @contextlib.contextmanager
    def intercepting(self, interceptor: CallInterceptor) -> Iterator[None]:
        """Pass calls of the model and of `backward` to an interceptor within the context."""
        self._interceptor = interceptor
        try:
            yield
        finally:
            self._interceptor = None

    # Partition --------------------------------------------------------------------------------

    @property
    def partitioned(self) -> bool:
        """True once each rank holds only its own stage: from the first step on."""
        return self._pipeline is not None

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline. Raises ParallelError before the first step."""
        if self._pipeline is None:
            raise ParallelError(
                "the model has no stages before the first step, which partitions it"
            )
        return self._pipeline

    def partition(self, example: Arguments, precision: str | None = None) -> None:
        """Cut the model, and keep this rank's stage.

        example: the model's arguments for one microbatch. precision: that of torch.autocast around
            the first call of the model, if the job sets none.
        """
        world, part = session().world, session().part
        self.precision = part.precision or precision
        part = dataclasses.replace(part, precision=self.precision)
        self.seed = check_agreement(self.module, world)
        self.module.cpu()
        recompute(self.module, [*part.recomputed, *self._recomputed])
        self._pipeline = Pipeline(
            self.module,
            dataclasses.replace(world, job=part),
            starts=cuts(self.module, part),
            example=tree_map_only(torch.Tensor, torch.Tensor.cpu, dict(example)),
            loss=self._loss_of,
            schedule=part.schedule,
            precision=part.precision,
            seed=self.seed,
        )
        if self._pipeline.module.training != self.training:  # else some may be in another mode
            self._pipeline.train(self.training)
        for each in (*self.local_parameters(), *self.local_buffers()):
            dist.broadcast(each.data, group=world.dp_group, group_src=0)
        for each in self._on_partition:
            each()
        for hook in list(self._hooks.values()):
            hook(self, next(iter(session().optimizers), None))

    def _loss_of(self, output: object, microbatch: torch.Tensor) -> torch.Tensor:
        assert self._loss is not None  # the pipeline calls this within a step
        return self._loss(output, int(microbatch))

    def when_partitioned(self, work: Callable[[], None]) -> None:
        """Call a function now, or once the model is partitioned."""
        if self.partitioned:
            work()
        else:
            self._on_partition.append(work)

    def register_post_partition_hook(
        self, hook: Callable[[DistributedModel, Any], object]
    ) -> RemovableHandle:
        """Call a function once the model is partitioned, before its first forward pass.

        hook: called with this model and the optimizer, or None. The handle's `remove` cancels it.
        """
        if self.partitioned:
            raise ParallelError(
                "register_post_partition_hook is called after the first step, which partitioned "
                "the model: call it before"
            )
        handle = RemovableHandle(self._hooks)
        self._hooks[handle.id] = hook
        return handle

    def recompute(self, module: nn.Module) -> None:
        """Recompute the activations of a module, or of each entry of a sequence. See `recompute`.

        Raises ParallelError after the first step, and for a module that is not in this model.
        """
        if self.partitioned:
            raise ParallelError(
                "smp.set_activation_checkpointing is called after the first step: call it before"
            )
        found = [name for name, each in self.module.named_modules() if each is module and name]
        if not found:
            raise ParallelError(
                f"smp.set_activation_checkpointing: this {type(module).__name__} is no module "
                "within the one that smp.DistributedModel wraps: pass one of model.get_module()"
            )
        is_sequence = isinstance(module, (nn.Sequential, nn.ModuleList))
        parts = [f"{found[0]}.{child}" for child, _ in module.named_children()]
        self._recomputed += parts if is_sequence else found[:1]

    def __getattr__(self, name: str) -> Any:
        if name in _UNSUPPORTED:
            raise UnsupportedName(f"DistributedModel.{name} is not supported: {_UNSUPPORTED[name]}")
        return super().__getattr__(name)

    def train(self, mode: bool = True) -> DistributedModel:
        """Set train or eval mode; once the model is partitioned, of this rank's modules."""
        if self._pipeline is None:
            super().train(mode)
        else:
            self.training = mode
            self._pipeline.train(mode)
        return self

    def get_module(self) -> nn.Module:
        """Return the wrapped module."""
        return self.module

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Clip like torch.nn.utils.clip_grad_norm_, over all stages. smp has no such method."""
        return self.pipeline.clip(max_norm)

    # Contents ---------------------------------------------------------------------------------

    def named_parameters(
        self, *args: object, **kwargs: object
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of the whole model.

        Raises ParallelError once the model is partitioned.
        """
        if self._pipeline is not None and session().world.degrees.pipeline > 1:
            raise ParallelError(
                "after the first step the model's parameters are spread over several ranks: use "
                "local_parameters() for those of this rank and the model's clip_grad_norm_(), and "
                "create optimizers before the first step"
            )
        named: Iterator[tuple[str, nn.Parameter]] = self.module.named_parameters(*args, **kwargs)
        return named

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self.module.zero_grad(set_to_none)

    def local_modules(self) -> Iterator[nn.Module]:
        """Return the modules of this rank's stage."""
        return iter(self.pipeline.module.modules())

    def local_named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """Return the modules of this rank's stage, with their names."""
        return iter(self.pipeline.module.named_modules())

    def local_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of this rank's stage."""
        return iter(self.pipeline.module.parameters())

    def local_named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the parameters of this rank's stage, with their names."""
        return iter(self.pipeline.module.named_parameters())

    def local_buffers(self) -> Iterator[torch.Tensor]:
        """Return the buffers of this rank's stage."""
        return iter(self.pipeline.module.buffers())

    def local_named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Return the buffers of this rank's stage, with their names."""
        return iter(self.pipeline.module.named_buffers())

    # State ------------------------------------------------------------------------------------

    def local_state_dict(self) -> dict[str, Any]:
        """Return the state of this rank's stage; the first stage includes what no stage uses."""
        return {**self.pipeline.module.state_dict(), PARTIAL: True}

    def state_dict(self, gather_to_rank0: bool = False, cast_to_cpu: bool = True) -> dict[str, Any]:
        """Return the state of the whole model, on the CPU. All ranks of a replica call it.

        gather_to_rank0, cast_to_cpu: accepted; all ranks get it, on the CPU, in any case.
        """
        if self._pipeline is None:
            return dict(self.module.state_dict())
        found = merged(self.local_state_dict(), session().world, self._tied)
        return {name: found[name] for name in self._names}

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> None:
        """Load a state of the whole model, or one that `local_state_dict` returned.

        All ranks of a replica call it. Raises ParallelError for other names, if strict.
        """
        whole = merged(state, session().world, self._tied)
        if strict and set(whole) != set(self._names):
            raise ParallelError(
                f"the names in the state and in the model differ: "
                f"{sorted(set(whole) ^ set(self._names))}"
            )
        target = self.module if self._pipeline is None else self._pipeline.module
        own = {name: whole[name] for name in target.state_dict() if name in whole}
        target.load_state_dict(own, strict=strict)

    def _apply(self, *args: object, **kwargs: object) -> object:
        if self._pipeline is not None:
            raise ParallelError(
                "the model cannot be moved or converted after its first step: do it before; "
                "state_dict() returns the whole model on the CPU"
            )
        return super()._apply(*args, **kwargs)


def check_agreement(model: nn.Module, world: ParallelContext) -> int:
    """Return the seed of the first stage. Raises ParallelError when another stage differs."""
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    mine = (torch.initial_seed(), {name: checksum(tensor) for name, tensor in named})
    gathered: list[Any] = [None] * world.degrees.pipeline
    dist.all_gather_object(gathered, mine, group=world.pp_group)
    seed, first_weights = gathered[0]
    for stage, (_, weights) in enumerate(gathered):
        if different := [name for name in weights if weights[name] != first_weights.get(name)]:
            raise ParallelError(
                f"the ranks of stages 0 and {stage} have created different models: {different[0]} "
                "differs; use the same seed on all ranks of a replica before creating the model: "
                "torch.manual_seed(seed + smp.dp_rank())"
            )
    return int(seed)
