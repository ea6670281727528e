"""Checks that the stages of a model are the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from launcher.errors import ParallelError
from launcher.parallel.cutting.graph import bind, caches_off, in_mode, preserved_random_state
from launcher.parallel.cutting.shared_state import Readers, SharedState
from launcher.parallel.tracing import Observation, place, preserved_state, random_state
from launcher.parallel.weights import trained_by

if TYPE_CHECKING:
    from launcher.parallel.stages import Stage

#: Relative differences that kernels may cause, by the precision of the output.
_CLOSE = {torch.float64: 1e-9, torch.float32: 1e-3}
_COARSE = 0.1


def check_state(model: nn.Module, stages: Sequence[Stage], changing: Collection[str]) -> None:
    """Reject a module in two stages that changes its state: each copy would see half of the calls.

    changing: the names of the modules that change their state.
    """
    states = {id(model.get_submodule(name)): name for name in changing}
    first: dict[int, int] = {}
    for number, stage in enumerate(stages):
        for each in stage.module.modules():
            if id(each) in states and first.setdefault(id(each), number) != number:
                raise ParallelError(
                    f"{states[id(each)]} changes its own state and is called in the stages "
                    f"{first[id(each)]} and {number}, whose copies would each count half of the "
                    "calls: put all of its calls into one stage"
                )


def check_output(
    model: nn.Module,
    stages: Sequence[Stage],
    arguments: Mapping[str, object],
    readers: Readers | None = None,
    *,
    in_order: bool = True,
) -> None:
    """Run the stages in both modes and compare with the output of the model.

    readers: what reads Python's state on several ranks; None on one. in_order: whether the stages
    run the model's code in its order, so that both draw the same random numbers in train mode.
    """
    _check_mode(model, stages, arguments, readers, training=False, in_order=False)
    _check_mode(model, stages, arguments, readers, training=True, in_order=in_order)


def _check_mode(
    model: nn.Module,
    stages: Sequence[Stage],
    arguments: Mapping[str, object],
    readers: Readers | None,
    *,
    training: bool,
    in_order: bool,
) -> None:
    (tensors, _), (_, call) = bind(model, arguments), bind(model, arguments)
    with caches_off(model), in_mode(model, training=training), torch.enable_grad():
        with preserved_state(model), preserved_random_state() as has_drawn:
            expected = call()
            if has_drawn() and not in_order:
                return  # stages may draw in another order
            drawn = random_state()
        with preserved_state(model) as seen, preserved_random_state():
            of_mode = [each.in_mode(training) for each in stages]
            output, shared = _run_all(model, of_mode, tensors, readers, seen)
            is_as_drawn = random_state() == drawn
            if shared:
                _check_shared(model, of_mode, tensors, readers, seen)
            if not is_as_drawn:
                return  # stages do not draw what has no effect (a layer drop of 0)
    found = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor)]
    wanted = [each for each in tree_leaves(expected) if isinstance(each, torch.Tensor)]
    if len(found) != len(wanted) or not all(map(_is_close, found, wanted)):
        raise ParallelError(
            f"the stages of {type(model).__name__} compute another output than the model in "
            f"{'train' if training else 'eval'} mode: its code between modules does something that "
            "a trace cannot see (it writes to a tensor through a view, or reads a global "
            "variable): move that code into a module of its own; or a module counts its calls "
            "where that cannot be put back (in an iterator, a file, the environment): count in an "
            "attribute"
        )


def _run_all(
    model: nn.Module,
    stages: Sequence[Stage],
    tensors: Mapping[str, torch.Tensor],
    readers: Readers | None,
    seen: Observation,
) -> tuple[Any, str]:
    """Run the stages; return the output, and what one changes that others read, or ""."""
    shared, found = SharedState(readers, stages) if readers else None, ""
    output: Any = list(tensors.values())
    for number, stage in enumerate(stages):
        given = [each.detach().requires_grad_(each.requires_grad) for each in output]
        since = len(seen.written)
        output = _run(stage, number, given)
        if shared and not found and (change := shared.change_by(number, seen, since)):
            found = f"stage {number} changes {change}"
        _check_registered(model, stages, number, given, output)
        if number < len(stages) - 1:
            _check_between(stage, number, output)
    return output, found


def _check_shared(
    model: nn.Module,
    stages: Sequence[Stage],
    tensors: Mapping[str, torch.Tensor],
    readers: Readers | None,
    seen: Observation,
) -> None:
    """Raise ParallelError for state that stages share, unless it is settled by a first call.

    With other weights, so that what depends on them is another value.
    """
    for each in model.parameters():
        if each.is_floating_point():
            each.data.mul_(2)
    if shared := _run_all(model, stages, tensors, readers, seen)[1]:
        raise ParallelError(
            f"{shared}, but ranks have a copy each: return it from the module, so that it is "
            "passed on as an output, or call both in one stage"
        )


def _check_registered(
    model: nn.Module, stages: Sequence[Stage], number: int, given: Sequence[object], output: Any
) -> None:
    """Raise ParallelError for a parameter that a stage trains and does not hold."""
    held = {id(each) for each in (*given, *stages[number].module.parameters())}
    places = {place(each) for each in given if isinstance(each, torch.Tensor)}
    for each in trained_by(output):
        # Some code marks a view of its input (wav2vec2, for recomputation): that is no parameter.
        if id(each) not in held and place(each) not in places:
            names = {id(value): name for name, value in model.named_parameters()}
            what = names.get(id(each), f"a parameter of shape {list(each.shape)}")
            raise ParallelError(
                f"stage {number} trains {what} by a reference that torch does not know (in a list, "
                "a closure or another object), so its rank would have a copy: register it in the "
                "module that uses it (self.weight = other.weight)"
            )


def _run(stage: Stage, number: int, given: Sequence[torch.Tensor]) -> Any:
    """Run a stage on what it receives, which torch does not let it change in place."""
    try:
        return stage.module(*given)
    except RuntimeError as error:
        if "leaf Variable" not in str(error):
            raise
        raise ParallelError(
            f"stage {number} changes what it receives in place, whose gradient would be lost: cut "
            "at another module, or use an operation that is not in place"
        ) from error


def _check_between(stage: Stage, number: int, output: Sequence[torch.Tensor]) -> None:
    for value, tensor in zip(stage.outputs, output, strict=True):
        if value.like.requires_grad != tensor.requires_grad:
            raise ParallelError(
                f"{value.name} crosses from stage {number} to the next one, and its gradient would "
                "be lost: cut at another module"
            )


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.requires_grad != other.requires_grad:
        return False
    if any(each.is_meta or isinstance(each, FakeTensor) for each in (one, other)):
        return True  # they have no values
    if not one.is_floating_point():
        return bool(torch.equal(one, other))
    tolerance = _CLOSE.get(one.dtype, _COARSE)
    scale = other.detach().double().nan_to_num(0, 0, 0).abs().max() if other.numel() else 0.0
    difference = (one.detach().double() - other.detach().double()).abs().nan_to_num(0, 0, 0)
    same_nan = bool(torch.equal(one.isnan(), other.isnan()))
    return same_nan and bool((difference <= tolerance * (scale + 1e-30)).all())
