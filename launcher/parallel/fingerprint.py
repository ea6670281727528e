"""Fingerprints that identify the model that a partition file was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from launcher.errors import ParallelError
from launcher.parallel.cutting.graph import order_arguments, trace
from launcher.shared import Fingerprint, did_you_mean


def compute(model: nn.Module, arguments: Mapping[str, object]) -> Fingerprint:
    """Return the fingerprint of a model. Raises ParallelError.

    arguments: the model's arguments for one microbatch, by name.
    """
    called = trace(model, arguments).graph.find_nodes(op="call_module")
    return Fingerprint(
        parameters={name: _describe(each) for name, each in model.named_parameters()},
        calls=tuple(str(node.target) for node in called),
        example=tuple(_describe(each) for each in order_arguments(model, arguments).values()),
        torch=torch.__version__,
    )


def check(found: Fingerprint, of_file: Fingerprint, file: str) -> None:
    """Raise ParallelError with the first difference if the file is of another model."""
    for difference in _differences(found, of_file):
        raise ParallelError(
            f"{file} was made for another model: {difference}; run `launcher plan cut` again"
        )


def caveats(found: Fingerprint, of_file: Fingerprint, file: str) -> Iterator[str]:
    """Yield the reasons why the file's predictions may be off although its cuts are right."""
    if found.example != of_file.example:
        yield (
            f"{file} was measured with microbatches of {_listed(of_file.example)}, but this job "
            f"has {_listed(found.example)}: its predictions do not apply"
        )
    if found.torch != of_file.torch:
        yield f"{file} was made with torch {of_file.torch}, but this is torch {found.torch}"


def _differences(found: Fingerprint, of_file: Fingerprint) -> Iterator[str]:
    for name, here in found.parameters.items():
        there = of_file.parameters.get(name)
        if there is None:
            near = _near(name, of_file.parameters)
            yield f"the file has no {name} ({here} in this model){near}"
        elif there != here:
            yield f"{name} is {there} in the file, but {here} in this model"
    for name, there in of_file.parameters.items():
        if name not in found.parameters:
            near = _near(name, found.parameters)
            yield f"the file has {name} ({there}), but this model has not{near}"
    for call, other in zip_longest(found.calls, of_file.calls):
        if call != other:
            yield f"the file's model calls {other or 'nothing'} where this has {call or 'nothing'}"


def _near(name: str, names: Mapping[str, str]) -> str:
    near = did_you_mean(name, names)
    return f", but {near}" if near else ""


def _describe(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(tree_map_only(torch.Tensor, _describe, value))
    return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def _listed(arguments: tuple[str, ...]) -> str:
    return ", ".join(arguments)
