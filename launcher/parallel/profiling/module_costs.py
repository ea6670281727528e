"""Profiles: the costs of a model's modules, by which it is partitioned."""

from __future__ import annotations

import enum
import platform
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.utils._pytree import tree_leaves, tree_map_only

from launcher.errors import ParallelError
from launcher.parallel.cuts import boundaries
from launcher.parallel.cutting.graph import bind, caches_off, in_mode, preserved_random_state
from launcher.parallel.precision import Precision, autocasting
from launcher.parallel.profiling.bytes import (
    AllocationTracker,
    PassPeaks,
    ProcessMemory,
    known_bytes,
)
from launcher.parallel.profiling.estimate import Rates, StageEstimate, rates
from launcher.parallel.profiling.passes import Passes, PassRecorder, sum_outputs
from launcher.parallel.profiling.stage_clock import (
    MakeOptimizer,
    StageClock,
    Update,
    spread,
    updates_of,
)
from launcher.parallel.sharding import blocks
from launcher.parallel.stages import Stage, cut
from launcher.parallel.tracing import PythonState
from launcher.shared import Joint, ModuleCost, Tie

__all__ = ["ProfileKind", "Sample", "Profile", "profile"]

_WARM_UP_PASSES = 3
#: Timed passes of a profile, and profiles of a model: passes of one are more alike than profiles.
RUNS = 5
REPEATS = 3


class ProfileKind(str, enum.Enum):
    """The source of the seconds; bytes are counted with both."""

    MEASURED = "measured"
    ESTIMATED = "estimated"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The input of a profile: one microbatch, on the CPU.

    arguments: the model's, by name. loss: takes its output and the target; None uses the sum of
    all outputs.
    """

    arguments: Mapping[str, Any]
    target: Any = None
    loss: Callable[[Any, Any], torch.Tensor] | None = None

    def to(self, device: torch.device) -> Sample:
        """Return the sample on a device."""
        return self.map_tensors(lambda leaf: leaf.to(device))

    def map_tensors(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
        """Return the sample with changed tensors."""
        changed = tree_map_only(torch.Tensor, change, (dict(self.arguments), self.target))
        return replace(self, arguments=changed[0], target=changed[1])

    def loss_of(self, output: object) -> torch.Tensor:
        """Return the loss of an output."""
        return sum_outputs(output) if self.loss is None else self.loss(output, self.target)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The modules of a model between which it can be cut, and their costs."""

    kind: ProfileKind
    device: str
    runs: int
    modules: tuple[ModuleCost, ...]
    joints: tuple[Joint, ...]
    ties: tuple[Tie, ...] = ()


def profile(
    model: nn.Module,
    sample: Sample,
    *,
    device: torch.device,
    kind: ProfileKind = ProfileKind.MEASURED,
    precision: Precision | str | None = None,
    states: int = 2,
    optimizer: MakeOptimizer | None = None,
) -> Profile:
    """Measure or estimate a model. Afterwards it is as before, without gradients.

    device: where it is measured. states: tensors that the optimizer keeps per parameter. optimizer:
    makes the one whose steps are timed, if any, of parameters.
    Raises ParallelError for a model that cannot be traced from module to module, and passes on the
    model's own errors.
    """
    is_measured = kind is ProfileKind.MEASURED
    casting = autocasting(precision, device)
    with _in_train_mode(model), caches_off(model), ExitStack() as stack:
        if is_measured:
            model.to(device)
            sample = sample.to(device)
        with casting():
            stages = cut(model, boundaries(model, sample.arguments), sample.arguments)
        stack.enter_context(_preserved_state(model, stages[0].changing))
        given = tuple(bind(model, sample.arguments)[0].values())
        passes = Passes(stages=stages, arguments=given, loss=sample.loss_of, autocasting=casting)
        memory = ProcessMemory(device)
        before = memory.begin() if memory.is_known else 0
        _warm_up(passes, kind)
        lasting = _bytes(each for each in model.parameters() if each.requires_grad)
        fixed = 0
        if is_measured and memory.is_known:
            fixed = known_bytes(memory.begin() - before - lasting)
        allocations = _count(model, passes, sample.target)
        clock = StageClock(device) if is_measured else StageEstimate(_rates(device, precision))
        runs = RUNS if is_measured else 1
        for _ in range(runs):
            passes.run(clock)
        updates = [Update(0.0, 0)] * len(stages)
        if is_measured:
            if memory.is_known:
                peaks = PassPeaks(memory)
                passes.run(peaks)
                allocations.include(peaks.passing)
            if optimizer:
                updates = updates_of([each.module for each in stages], optimizer, memory)
        return Profile(
            kind=kind,
            device=_name(device),
            runs=runs,
            modules=tuple(_costs(model, stages, clock, allocations, states, updates, fixed)),
            joints=(*_tied(stages, states), *allocations.joints()),
            ties=tuple(_ties(stages)),
        )


def repeated(once: Callable[[], Profile]) -> list[Profile]:
    """Return several profiles of a model; one where it is estimated."""
    first = once()
    more = REPEATS - 1 if first.kind is ProfileKind.MEASURED else 0
    return [first, *(once() for _ in range(more))]


def median_profile(profiles: Sequence[Profile]) -> Profile:
    """Return the medians of the seconds of several profiles of one model."""
    seconds = ("forward", "backward", "spread", "update")
    modules = tuple(
        replace(
            each[0],
            **{name: statistics.median(getattr(one, name) for one in each) for name in seconds},
        )
        for each in zip(*(one.modules for one in profiles), strict=True)
    )
    return replace(profiles[0], modules=modules, runs=sum(each.runs for each in profiles))


def _warm_up(passes: Passes, kind: ProfileKind) -> None:
    try:
        for _ in range(_WARM_UP_PASSES if kind is ProfileKind.MEASURED else 1):
            passes.run(PassRecorder())
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise ParallelError(
            f"the model depends on the values of tensors ({error}) and cannot be estimated: use "
            "the profile 'measured'"
        ) from error


@contextmanager
def _in_train_mode(model: nn.Module) -> Iterator[None]:
    """Set train mode within the context; restore the device and the gradients afterwards."""
    device = next((each.device for each in model.parameters()), None)
    gradients = [(each, each.grad) for each in model.parameters()]
    for each, _ in gradients:
        each.grad = None
    try:
        with preserved_random_state(), in_mode(model, training=True):
            yield
    finally:
        if any(each.device != device for each in model.parameters()):
            model.to(device)
        for each, gradient in gradients:
            each.grad = gradient


@contextmanager
def _preserved_state(model: nn.Module, changing: Iterable[str]) -> Iterator[None]:
    """Restore, at exit, what the calls of a model change; operations are not observed.

    changing: the modules whose calls change their state.
    """
    state = PythonState([model])
    parts = [model.get_submodule(name) for name in changing]
    written = {id(x): x for x in state.tensors if not isinstance(x, nn.Parameter)}
    written |= {id(each): each for part in parts for each in part.parameters()}
    before = [(each, each.detach().clone()) for each in written.values()]
    try:
        yield
    finally:
        state.restore()
        for each, was in before:
            each.data.copy_(was)


def _count(model: nn.Module, passes: Passes, target: object) -> AllocationTracker:
    """Count the bytes of a pass in which gradients already exist."""
    given = [leaf for leaf in tree_leaves((passes.arguments, target)) if torch.is_tensor(leaf)]
    allocations = AllocationTracker([*model.parameters(), *model.buffers(), *given])
    with ExitStack() as stack:
        for each in model.modules():
            if "forward" in vars(each):  # it recomputes: autograd does not see what it keeps
                hook = each.register_forward_pre_hook(allocations.record_inputs)
                stack.callback(hook.remove)
        passes.run(allocations)
    return allocations


def _costs(
    model: nn.Module,
    stages: Sequence[Stage],
    clock: StageClock | StageEstimate,
    allocations: AllocationTracker,
    states: int,
    updates: Sequence[Update],
    fixed: int,
) -> Iterator[ModuleCost]:
    """Yield the costs of each module. fixed: bytes that the first passes took for good."""
    used = {id(each) for stage in stages for each in _state(stage.module)}
    # Whatever no stage uses is in the first one, so that it is saved (`holdings`).
    rest = [each for each in _state(model) if id(each) not in used]
    all_forward, all_backward = clock.forward_seconds, clock.backward_seconds
    block_of = _block_sizes(model)
    for number, stage in enumerate(stages):
        forward, backward = all_forward[number], all_backward[number]
        totals = [sum(pair) for pair in zip(forward, backward, strict=True)]
        trained = [each for each in stage.module.parameters() if each.requires_grad]
        yield ModuleCost(
            name=_first_call(stage),
            forward=statistics.median(forward),
            backward=statistics.median(backward),
            spread=spread(totals),
            parameters=_bytes((*_state(stage.module), *(() if number else rest))),
            gradients=_bytes(trained),
            states=states * _bytes(trained),
            update=updates[number].seconds,
            kept=allocations.kept(number),
            passing=fixed
            + max(
                allocations.passing[number],
                updates[number].passing - allocations.kept(number),
            ),
            crossing=_bytes(value.like for value in stage.inputs) if number else None,
            returning=_bytes(value.like for value in stage.inputs if value.like.requires_grad)
            if number
            else None,
            block=_block(stage.module, block_of) if number or not rest else 0,
        )


def _block(module: nn.Module, block_of: Mapping[int, int]) -> int:
    return min((block_of.get(id(each), 0) for each in module.parameters()), default=0)


def _block_sizes(model: nn.Module) -> dict[int, int]:
    """Return the bytes of the block that shards gather together, by the ids of its parameters."""
    return {
        id(parameter): _bytes(block.parameters())
        for block in blocks(model)
        for parameter in block.parameters()
    }


def _state(module: nn.Module) -> tuple[torch.Tensor, ...]:
    return (*module.parameters(), *module.buffers())


def _tied(stages: Sequence[Stage], states: int) -> Iterator[Joint]:
    """Yield parameters of several modules, which a stage with both holds once."""
    last: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for each in stage.module.parameters():
            if id(each) in last:
                copies = 2 + states if each.requires_grad else 1
                yield Joint(first=last[id(each)], second=number, held=-copies * each.nbytes)
            last[id(each)] = number


def _ties(stages: Sequence[Stage]) -> Iterator[Tie]:
    """Yield the trained parameters of several modules, by the modules that share them."""
    users: dict[nn.Parameter, list[int]] = {}
    for number, stage in enumerate(stages):
        for each in stage.module.parameters():
            if each.requires_grad:
                users.setdefault(each, []).append(number)
    tied: dict[tuple[int, ...], list[nn.Parameter]] = {}
    for parameter, numbers in users.items():
        if len(numbers) > 1:
            tied.setdefault(tuple(numbers), []).append(parameter)
    for modules, parameters in tied.items():
        yield Tie(modules=modules, gradients=_bytes(parameters), parameters=len(parameters))


def _first_call(stage: Stage) -> str:
    calls = stage.module.graph.find_nodes(op="call_module")
    return str(next(iter(calls)).target) if calls else ""


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _rates(device: torch.device, precision: Precision | str | None) -> Rates:
    return rates(device, Precision(precision).dtype if precision else torch.float32)


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
