"""Fingerprints that identify the model that a partition file was made from."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.graph import in_order, trace
from launcher.shared.partitions.partition_file import Fingerprint


def taken(model: nn.Module, arguments: Mapping[str, object]) -> Fingerprint:
    """Return the fingerprint of a model.

    arguments: of one microbatch, by name. Raises ParallelError.
    """
    called = trace(model).find_nodes(op="call_module")
    return Fingerprint(
        parameters={name: _in_words(each) for name, each in model.named_parameters()},
        calls=tuple(str(node.target) for node in called),
        example=tuple(_in_words(each) for each in in_order(model, arguments).values()),
        torch=torch.__version__,
    )


def check(found: Fingerprint, of_file: Fingerprint, file: str) -> None:
    """Reject a file of another model. Raises ParallelError with the first difference."""
    for difference in _differences(found, of_file):
        raise ParallelError(
            f"{file} was made of another model: {difference}; make it anew with `launcher "
            "partition`"
        )


def doubts(found: Fingerprint, of_file: Fingerprint, file: str) -> Iterator[str]:
    """Yield the reasons why the file's predictions may be off although its cuts are right."""
    if found.example != of_file.example:
        yield (
            f"{file} was measured with microbatches of {_listed(of_file.example)}, and this job "
            f"has {_listed(found.example)}: its predictions do not hold"
        )
    if found.torch != of_file.torch:
        yield f"{file} was made with torch {of_file.torch}, and this is {found.torch}"


def _differences(found: Fingerprint, of_file: Fingerprint) -> Iterator[str]:
    for name, what in found.parameters.items():
        other = of_file.parameters.get(name)
        if other is None:
            yield f"it has no {name} ({what} here){_near(name, of_file.parameters)}"
        elif other != what:
            yield f"{name} is {other} in it, and {what} here"
    for name, what in of_file.parameters.items():
        if name not in found.parameters:
            yield f"it has {name} ({what}), and this model has not{_near(name, found.parameters)}"
    for here, there in zip_longest(found.calls, of_file.calls):
        if here != there:
            yield f"it calls {there or 'nothing'} where this model calls {here or 'nothing'}"


def _near(name: str, names: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, names, 1)
    return f", but {near[0]}" if near else ""


def _in_words(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words)
