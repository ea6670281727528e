"""Checks that the stages of a model are the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from launcher.errors import ParallelError
from launcher.parallel.graph import bind, caches_off, in_mode, preserved_random_state
from launcher.parallel.tracing.preservation import preserved_state, random_state

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
    *,
    in_order: bool = True,
) -> None:
    """Run the stages in both modes and compare with the output of the model.

    in_order: whether the stages run the model's code in its order, so that both draw the same
    random numbers in train mode.
    """
    _check_mode(model, stages, arguments, training=False, in_order=False)
    _check_mode(model, stages, arguments, training=True, in_order=in_order)


def _check_mode(
    model: nn.Module,
    stages: Sequence[Stage],
    arguments: Mapping[str, object],
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
        with preserved_state(model), preserved_random_state():
            output: Any = list(tensors.values())
            for number, stage in enumerate(each.in_mode(training) for each in stages):
                given = [each.detach().requires_grad_(each.requires_grad) for each in output]
                output = _run(stage, number, given)
                if number < len(stages) - 1:
                    _check_between(stage, number, output)
            if random_state() != drawn:
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
