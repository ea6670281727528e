"""Comparison of what a model's code does in train mode and in eval mode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from launcher.parallel.tracing.recorder import Recording


def eval_differences(train: Recording, evaluation: Recording) -> set[str]:
    """Return the modules whose code makes other calls in eval mode ("" is the model)."""
    ours, theirs = (_by_module(each.graph) for each in (train, evaluation))
    found = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    return found or _reading_others(train, evaluation)


def _by_module(graph: fx.Graph) -> dict[str, list[tuple[object, ...]]]:
    found: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for node in graph.nodes:
        found[_calling_module(node)].append(_look(node))
    return found


def _reading_others(train: Recording, evaluation: Recording) -> set[str]:
    """Return the modules whose calls, though the same, are in another order or of other values.

    A module that returns its input in eval mode (nn.Dropout) is there the source of what else reads
    that input afterwards, although it is not in train mode.
    """
    pairs = list(zip(train.graph.nodes, evaluation.graph.nodes, strict=True))
    if any(_look(one) != _look(other) for one, other in pairs):
        return {""}
    counterparts = dict(pairs)
    return {
        _calling_module(one)
        for one, other in pairs
        for ours, theirs in zip(_inputs(one), _inputs(other), strict=True)
        if counterparts[ours] not in _sources(theirs, evaluation.values)
    }


def _sources(node: fx.Node, values: Mapping[fx.Node, Any]) -> Iterator[fx.Node]:
    """Yield a node, and what it is the very value of because modules have returned their input."""
    yield node
    value = values.get(node)
    is_module = node.op == "call_module" and not node.meta.get("writes")
    if is_module and isinstance(value, torch.Tensor):
        given = next((each for each in _inputs(node) if values.get(each) is value), None)
        if given is not None:
            yield from _sources(given, values)


def _inputs(node: fx.Node) -> list[fx.Node]:
    """Return the nodes in a node's arguments, in order."""
    found: list[fx.Node] = []
    fx.node.map_arg((node.args, node.kwargs), found.append)
    return found


def _look(node: fx.Node) -> tuple[object, ...]:
    arguments = fx.node.map_arg((node.args, node.kwargs), lambda _: "%")
    return node.op, node.target, repr(arguments)


def _calling_module(node: fx.Node) -> str:
    """Return the module whose code makes a call."""
    calls = [str(path) for path, _ in node.meta.get("calls", ())]
    if node.op == "call_module":
        calls.pop()
    return calls[-1] if calls else ""
