"""Stages for microbatches of other shapes than the example: another batch size or length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._pytree import tree_map_only

from launcher.errors import ParallelError
from launcher.parallel.cuts import Pins
from launcher.parallel.cutting.graph import on_meta
from launcher.parallel.cutting.shared_state import Readers
from launcher.parallel.cutting.stage_checks import check_output, check_state
from launcher.parallel.stages import Stage, plan

Shapes = tuple[tuple[torch.Size, torch.dtype], ...]


def shapes(arguments: Iterable[object]) -> Shapes:
    """Return the shapes and dtypes that identify microbatches of this kind."""
    return tuple((each.shape, each.dtype) for each in arguments if isinstance(each, torch.Tensor))


class Reshaping:
    """A whole model's shapes, from which its stages are made again for other microbatches.

    Created before the parameters of other stages are emptied.
    """

    def __init__(self, model: nn.Module, cuts: Sequence[str] | Pins) -> None:
        self._model = model
        self._cuts = cuts
        self._likes = {id(each): on_meta(each) for each in _state(model)}

    def stages(
        self,
        arguments: Mapping[str, object],
        device: torch.device,
        *,
        reason: str = "for microbatches of other shapes than the example's",
        mend: str = "pad all batches to the same shapes",
    ) -> list[Stage]:
        """Return all stages for such arguments of one microbatch. No operation is computed.

        Raises ParallelError, with the reason and the mend, for a model whose modules depend on the
        values of tensors.
        """
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        given = tree_map_only(
            torch.Tensor,
            lambda leaf: mode.from_tensor(leaf if leaf.is_meta else leaf.to(device)),
            dict(arguments),
        )
        try:
            with mode, self._without_storage(mode, device):
                found = plan(self._model, self._cuts, given)
        except (
            DataDependentOutputException,
            DynamicOutputShapeException,
            UnsupportedOperatorException,
        ) as error:
            raise ParallelError(
                f"{type(self._model).__name__} cannot be cut {reason}, because a module depends on "
                f"the values of tensors ({error}): {mend}"
            ) from error
        return found.build(self._model)

    @contextmanager
    def _without_storage(
        self, mode: FakeTensorMode, device: torch.device, stages: Sequence[Stage] = ()
    ) -> Iterator[None]:
        """Replace parameters and buffers by fake ones of their shapes within the context."""
        known: dict[int, torch.Tensor] = {}

        def fake(tensor: torch.Tensor) -> torch.Tensor:
            like = self._likes.get(id(tensor), tensor)
            if id(tensor) not in known:
                made: torch.Tensor = torch.empty(like.shape, dtype=like.dtype, device=device)
                if isinstance(tensor, nn.Parameter):
                    made = nn.Parameter(made, requires_grad=tensor.requires_grad)
                known[id(tensor)] = made
            return known[id(tensor)]

        modes = [stage.in_mode(training).module for stage in stages for training in (True, False)]
        held = [
            each
            for module in {part for whole in (self._model, *modes) for part in whole.modules()}
            for each in (module._parameters, module._buffers)
        ]
        before = [dict(each) for each in held]
        for each in held:
            each.update({name: fake(value) for name, value in each.items() if value is not None})
        try:
            yield
        finally:
            for each, was in zip(held, before, strict=True):
                each.update(was)


def has_weights(model: nn.Module) -> bool:
    """Return whether all parameters have storage."""
    return not any(each.is_meta for each in model.parameters())


def cut_by_shape(
    model: nn.Module,
    cuts: Sequence[str] | Pins,
    arguments: Mapping[str, object],
    loss: object = None,
) -> list[Stage]:
    """Cut a model without weights, as `stages.cut` does with weights. No operation is computed.

    So the outputs of stages and model are compared by their shapes. Raises ParallelError.
    """
    found = Reshaping(model, cuts).stages(
        arguments,
        torch.device("cpu"),
        reason="without its weights",
        mend="create it with weights, outside without_weights()",
    )
    check_state(model, found, found[0].changing)
    with shapes_only(model, arguments, found) as given:
        in_order = not isinstance(cuts, Pins)
        check_output(model, found, given, Readers(model, loss), in_order=in_order)
    return found


@contextmanager
def shapes_only(
    model: nn.Module, arguments: Mapping[str, object], stages: Sequence[Stage] = ()
) -> Iterator[Mapping[str, object]]:
    """Let a model and its stages compute shapes only; yields the model's arguments for that."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    given = tree_map_only(torch.Tensor, mode.from_tensor, dict(arguments))
    whole = Reshaping(model, ())
    with mode, whole._without_storage(mode, torch.device("cpu"), stages):
        yield given


def _state(model: nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()
