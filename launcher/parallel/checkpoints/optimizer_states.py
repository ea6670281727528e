"""The state of optimizers under the names of their parameters.

torch's own get_ and set_optimizer_state_dict use a tied parameter's first name in one stage, which
differs between stages, and require a state for each trainable parameter (torch 2.13). Here a
parameter without state has none in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from launcher.errors import ParallelError

_STATE, _OPTIONS = "optimizer/", "options/"
#: What lists the parameters of a group. With other stages, groups have others.
_MEMBERS = ("params", "param_names")

NameOf = Callable[[nn.Parameter], str]


def optimizer_contents(optimizer: Optimizer, name_of: NameOf) -> Iterator[tuple[str, object]]:
    """Yield what is saved of an optimizer, by key."""
    packed = optimizer.state_dict()
    for number, group in enumerate(packed["param_groups"]):
        options = {key: value for key, value in group.items() if key not in _MEMBERS}
        parameters = optimizer.param_groups[number]["params"]
        for index, parameter in zip(group["params"], parameters, strict=True):
            name = name_of(parameter)
            yield _OPTIONS + name, {"kind": type(optimizer).__name__, "options": options}
            for field, value in packed["state"].get(index, {}).items():
                _check_shards(name, field, parameter, value)
                yield f"{_STATE}{name}/{field}", value


def _check_shards(name: str, field: str, parameter: nn.Parameter, value: Any) -> None:
    is_whole = torch.is_tensor(value) and not isinstance(value, DTensor) and value.numel() > 1
    if isinstance(parameter, DTensor) and is_whole:
        raise ParallelError(
            f"{name} is sharded, but its optimizer's {field} is not, so the values of only one "
            "rank would be saved: use an optimizer whose state is sharded like its parameters"
        )


class OptimizerTargets:
    """Maps an optimizer's state in a checkpoint to the optimizer.

    name_of: returns the name of a parameter in the checkpoint.
    """

    def __init__(self, optimizer: Optimizer, name_of: NameOf, saved: Metadata) -> None:
        self._optimizer = optimizer
        self._name_of = name_of
        self._saved = saved.state_dict_metadata
        self._fields: dict[str, list[str]] = {}
        for key in self._saved:
            if key.startswith(_STATE):
                name, _, field = key[len(_STATE) :].rpartition("/")
                self._fields.setdefault(name, []).append(field)

    def problems(self) -> Iterator[str]:
        """Yield what the checkpoint lacks for this optimizer."""
        for name, _ in self._parameters():
            if _OPTIONS + name not in self._saved:
                yield f"the checkpoint has no optimizer state for {name}"

    def targets(self) -> Iterator[tuple[str, object]]:
        """Yield the values to be filled, by key."""
        for name, parameter in self._parameters():
            yield _OPTIONS + name, None
            for field in self._fields.get(name, ()):
                key = f"{_STATE}{name}/{field}"
                yield key, _allocate(self._saved[key], parameter)

    def apply(self, loaded: Mapping[str, object]) -> None:
        """Load the filled values into the optimizer."""
        packed = self._optimizer.state_dict()
        state, groups = {}, []
        for number, group in enumerate(packed["param_groups"]):
            names = [self._name_of(each) for each in self._optimizer.param_groups[number]["params"]]
            for index, name in zip(group["params"], names, strict=True):
                if fields := self._fields.get(name):
                    state[index] = {field: loaded[f"{_STATE}{name}/{field}"] for field in fields}
            members = {key: group[key] for key in _MEMBERS if key in group}
            groups.append({**self._options(names, loaded, group), **members})
        self._optimizer.load_state_dict({**packed, "state": state, "param_groups": groups})

    def _options(
        self, names: list[str], loaded: Mapping[str, Any], now: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the options of one group, with which all its parameters must have been trained."""
        first: dict[str, Any] | None = None
        kind = type(self._optimizer).__name__
        for name in names:
            saved = loaded[_OPTIONS + name]
            for key in _MEMBERS:  # of checkpoints of older Launchers
                saved["options"].pop(key, None)
            if saved["kind"] != kind:
                raise ParallelError(
                    f"{name} was trained with {saved['kind']}, but its optimizer is now {kind}"
                )
            first = first or saved
            if repr(saved) != repr(first):
                raise ParallelError(
                    f"{names[0]} and {name} are in one group of the optimizer, but were trained "
                    f"with {first['options']} and {saved['options']}: create the same groups as "
                    "before"
                )
        return now if first is None else dict(first["options"])

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                yield self._name_of(parameter), parameter


def _allocate(saved: object, parameter: nn.Parameter) -> object:
    """Return an empty tensor for a saved one, sharded like its parameter; None for other values."""
    if not isinstance(saved, TensorStorageMetadata):
        return None
    dtype = saved.properties.dtype
    if isinstance(parameter, DTensor) and saved.size == parameter.size():
        return torch.empty_like(parameter.detach(), dtype=dtype)
    return torch.empty(saved.size, dtype=dtype)
