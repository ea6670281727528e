"""Assignment of each node of a model's graph to a stage."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from launcher.errors import ParallelError
from launcher.parallel.graph import holds_tensors

_Values = Mapping[fx.Node, Any]


@dataclass(frozen=True, kw_only=True)
class Pins:
    """Modules that are pinned to stages, by name, each with all its submodules.

    default: the stage of modules that are not pinned.
    """

    stages: Mapping[str, int]
    default: int = 0

    def stage_of(self, name: str) -> int:
        """Return the stage of a module: that of the innermost pinned module around it."""
        around = [pinned for pinned in self.stages if is_in(name, pinned)]
        return self.stages[max(around, key=len)] if around else self.default


def is_in(name: str, outer: str) -> bool:
    """Return whether a module is another one or a part of it."""
    return name == outer or name.startswith(f"{outer}.")


def assign_stages(
    graph: fx.Graph, cuts: Sequence[str] | Pins, values: _Values
) -> dict[fx.Node, int]:
    """Return the stage of each node of a graph, given each node's value. Raises ParallelError."""
    if isinstance(cuts, Pins):
        return _assign_by_pins(graph, cuts, values)
    return _assign_by_starts(graph, cuts, values)


def _assign_by_starts(
    graph: fx.Graph, starts: Sequence[str], values: _Values
) -> dict[fx.Node, int]:
    """Return the stage of each node: the number of starts at or before it."""
    remaining = list(starts)
    stage_of: dict[fx.Node, int] = {}
    for node in graph.nodes:
        if remaining and node.op == "call_module" and is_in(str(node.target), remaining[0]):
            remaining.pop(0)
        owner = _owner(node, values)  # a tuple is unpacked in the stage that created it
        stage = len(starts) - len(remaining) if owner is None else stage_of[owner]
        stage_of[node] = 0 if node.op == "placeholder" else stage
    if remaining:
        raise ParallelError(
            f"no stage can start at {remaining[0]!r} here: the model calls its modules in this "
            f"order: {', '.join(_called(graph))}"
        )
    return stage_of


def _assign_by_pins(graph: fx.Graph, pins: Pins, values: _Values) -> dict[fx.Node, int]:
    """Return the stage of each node: that of its module, else of its latest input."""
    _check_pins(graph, pins)
    stage_of: dict[fx.Node, int] = {}
    for node in graph.nodes:
        latest = max((stage_of[each] for each in _tensor_inputs(node, values)), default=0)
        if node.op == "call_module":
            stage_of[node] = pins.stage_of(str(node.target))
            _check_forward(node, stage_of, values)
        else:
            stage_of[node] = latest
    for node in graph.find_nodes(op="get_attr"):  # a parameter is in the first stage that uses it
        stage_of[node] = min((stage_of[user] for user in node.users), default=0)
    (output,) = graph.find_nodes(op="output")
    stage_of[output] = max(stage_of.values())
    _check_filled(stage_of, pins)
    return stage_of


def _tensor_inputs(node: fx.Node, values: _Values) -> list[fx.Node]:
    """Return the inputs of a node that hold tensors, except parameters."""
    inputs = node.all_input_nodes
    return [each for each in inputs if each.op != "get_attr" and holds_tensors(values[each])]


def _owner(node: fx.Node, values: _Values) -> fx.Node | None:
    """Return the value that a node takes a part of, if that is not a tensor itself."""
    if node.target not in (getattr, operator.getitem) or not node.all_input_nodes:
        return None
    owner = node.all_input_nodes[0]
    return None if isinstance(values[owner], torch.Tensor) else owner


def _check_pins(graph: fx.Graph, pins: Pins) -> None:
    called = _called(graph)
    for name, stage in pins.stages.items():
        if not any(is_in(each, name) for each in called):
            near = difflib.get_close_matches(name, called, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it calls {', '.join(called)}"
            raise ParallelError(f"{name!r} is pinned, but the model calls no such module: {hint}")
        if type(stage) is not int or stage < 0:
            raise ParallelError(
                f"{name!r} is pinned to stage {stage!r}: stages are numbered from 0"
            )


def _check_forward(node: fx.Node, stage_of: Mapping[fx.Node, int], values: _Values) -> None:
    late = [each for each in _tensor_inputs(node, values) if stage_of[each] > stage_of[node]]
    if late:
        raise ParallelError(
            f"{node.target} in stage {stage_of[node]} needs {late[0].name} of the later stage "
            f"{stage_of[late[0]]}, but data only goes to later stages: pin {node.target} to stage "
            f"{stage_of[late[0]]} or a later one"
        )


def _check_filled(stage_of: Mapping[fx.Node, int], pins: Pins) -> None:
    modules = {stage for node, stage in stage_of.items() if node.op == "call_module"}
    missing = sorted(set(range(max(stage_of.values()) + 1)) - modules)
    if missing:
        raise ParallelError(f"stage {missing[0]} has no module: pin a module to it")


def _called(graph: fx.Graph) -> list[str]:
    return [str(node.target) for node in graph.find_nodes(op="call_module")]


InPlace = Callable[[fx.Node], bool]


def check_in_place(stage_of: Mapping[fx.Node, int], works_in_place: InPlace) -> None:
    """Reject an in-place operation that follows an operation of a later stage in the model's code.

    Run stage by stage, they would overwrite tensors that the later stage has not used yet.
    """
    highest = 0
    for node, stage in stage_of.items():
        if works_in_place(node) and stage < highest:
            raise ParallelError(
                f"{node.name} modifies a tensor in place in stage {stage}, but the later stage "
                f"{highest} may need the old value: use an operation that is not in place, or move "
                f"it to stage {highest}"
            )
        highest = max(highest, stage)
