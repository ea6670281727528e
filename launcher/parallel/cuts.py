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


def placed(graph: fx.Graph, cuts: Sequence[str] | Pins, values: _Values) -> dict[fx.Node, int]:
    """Return the stage of each node of a graph. values: of each node. Raises ParallelError."""
    if isinstance(cuts, Pins):
        return _pinned(graph, cuts, values)
    return _started(graph, cuts, values)


def _started(graph: fx.Graph, starts: Sequence[str], values: _Values) -> dict[fx.Node, int]:
    """Return the stage of each node: the number of starts at or before it."""
    waiting = list(starts)
    found: dict[fx.Node, int] = {}
    for node in graph.nodes:
        if waiting and node.op == "call_module" and is_in(str(node.target), waiting[0]):
            waiting.pop(0)
        owner = _owner(node, values)  # tensors are taken out of a tuple in the stage that made it
        stage = len(starts) - len(waiting) if owner is None else found[owner]
        found[node] = 0 if node.op == "placeholder" else stage
    if waiting:
        raise ParallelError(
            f"no stage can start at {waiting[0]!r} here: the model calls, in this order, "
            f"{', '.join(_called(graph))}"
        )
    return found


def _pinned(graph: fx.Graph, pins: Pins, values: _Values) -> dict[fx.Node, int]:
    """Return the stage of each node: that of its module, else of its latest input."""
    _check_pins(graph, pins)
    found: dict[fx.Node, int] = {}
    for node in graph.nodes:
        latest = max((found[each] for each in _taken(node, values)), default=0)
        if node.op == "call_module":
            found[node] = pins.stage_of(str(node.target))
            _check_forward(node, found, values)
        else:
            found[node] = latest
    for node in graph.find_nodes(op="get_attr"):  # a parameter is in the first stage that uses it
        found[node] = min((found[user] for user in node.users), default=0)
    (output,) = graph.find_nodes(op="output")
    found[output] = max(found.values())
    _check_filled(found, pins)
    return found


def _taken(node: fx.Node, values: _Values) -> list[fx.Node]:
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
            meant = f": did you mean {near[0]!r}?" if near else f", in this order {called}"
            raise ParallelError(f"{name!r} is pinned, and the model calls no such module{meant}")
        if type(stage) is not int or stage < 0:
            raise ParallelError(f"{name!r} is pinned to stage {stage!r}: they count from 0")


def _check_forward(node: fx.Node, found: Mapping[fx.Node, int], values: _Values) -> None:
    late = [each for each in _taken(node, values) if found[each] > found[node]]
    if late:
        raise ParallelError(
            f"{node.target} is in stage {found[node]}, and takes what stage {found[late[0]]} makes "
            f"({late[0].name}): data goes to later stages only, so pin {node.target} to stage "
            f"{found[late[0]]} or a later one"
        )


def _check_filled(found: Mapping[fx.Node, int], pins: Pins) -> None:
    modules = {stage for node, stage in found.items() if node.op == "call_module"}
    missing = sorted(set(range(max(found.values()) + 1)) - modules)
    if missing:
        raise ParallelError(f"stage {missing[0]} has no module: pin one to it")


def _called(graph: fx.Graph) -> list[str]:
    return [str(node.target) for node in graph.find_nodes(op="call_module")]


InPlace = Callable[[fx.Node], bool]


def check_in_place(stage_of: Mapping[fx.Node, int], works_in_place: InPlace) -> None:
    """Reject in-place operations that follow, in the model's code, operations of a later stage.

    Run stage by stage, they would overwrite tensors that the later stage has not used yet.
    """
    highest = 0
    for node, stage in stage_of.items():
        if works_in_place(node) and stage < highest:
            raise ParallelError(
                f"{node.name} overwrites a tensor in stage {stage}, after stage {highest} may have "
                "used it: let it return a new one, or put it into that stage"
            )
        highest = max(highest, stage)
