"""A model cut into stages, each a module of its own: what one leaves, the next one takes.

A value that a later stage needs travels through all stages in between; what is no tensor (a size, a
flag) is worked out again where it is needed. Modules and parameters are the model's own, under
their own names; one that two stages use is in both, and their gradients must be added.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from launcher.errors import ParallelError
from launcher.parallel.graph import holds_tensors, trace, undrawn


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a model. inputs, outputs: the names of the tensors that it takes and leaves.

    The first takes the model's arguments, and the last leaves what the model returns.
    """

    module: fx.GraphModule
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def cut(model: nn.Module, starts: Sequence[str], arguments: Mapping[str, Any]) -> list[Stage]:
    """The stages of a model, the second and later ones each starting with a module of a name.

    arguments: of the model, as an example; it is called with them once, without gradients, on
        copies of its buffers. Raises ParallelError.
    """
    graph = trace(model, whole=frozenset(starts).__contains__)
    stage_of = _stages(graph, starts)
    has_tensors = _tensors(model, graph, arguments)
    return list(_Cutter(model, graph, stage_of, has_tensors).stages(len(starts) + 1))


def _stages(graph: fx.Graph, starts: Sequence[str]) -> dict[fx.Node, int]:
    """The stage of each node: how many starts are at it or before it."""
    waiting = list(starts)
    found: dict[fx.Node, int] = {}
    for node in graph.nodes:
        if waiting and node.op == "call_module" and _is_in(str(node.target), waiting[0]):
            waiting.pop(0)
        stage = len(starts) - len(waiting)
        if node.target is getattr and node.op == "call_function":
            stage = max((found[each] for each in node.all_input_nodes), default=stage)
        found[node] = 0 if node.op == "placeholder" else stage
    if waiting:
        called = ", ".join(str(n.target) for n in graph.nodes if n.op == "call_module")
        raise ParallelError(
            f"no stage can start at {waiting[0]!r} here: the model calls, in this order, {called}"
        )
    return found


def _is_in(name: str, start: str) -> bool:
    return name == start or name.startswith(f"{start}.")


def _tensors(model: nn.Module, graph: fx.Graph, arguments: Mapping[str, Any]) -> set[fx.Node]:
    """The nodes whose values hold tensors, by running them once."""
    found = set()

    class Look(fx.Interpreter):  # type: ignore[misc] # torch.fx says Any of it
        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            if holds_tensors(value):
                found.add(n)
            return value

    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        with torch.no_grad(), undrawn():
            Look(fx.GraphModule(model, graph)).run(*_in_order(graph, arguments))
    finally:
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    return found


def _in_order(graph: fx.Graph, arguments: Mapping[str, Any]) -> Iterator[Any]:
    for node in graph.find_nodes(op="placeholder"):
        if str(node.target) in arguments:
            yield arguments[str(node.target)]
        elif node.args:
            yield node.args[0]
        else:
            raise ParallelError(f"the example has no {node.target}, which the model must be given")


def _default(node: fx.Node, stage: int) -> Any:
    """Of an argument of the model."""
    return node.args[0] if stage == 0 and node.args else inspect.Signature.empty


class _Cutter:
    """Builds the stages of one graph."""

    def __init__(
        self,
        model: nn.Module,
        graph: fx.Graph,
        stage_of: dict[fx.Node, int],
        has_tensors: set[fx.Node],
    ) -> None:
        self._model = model
        self._graph = graph
        self._stage_of = stage_of
        self._has_tensors = has_tensors

    def stages(self, count: int) -> Iterator[Stage]:
        wanted: list[fx.Node] = []  # by later stages
        built = []
        for stage in reversed(range(count)):
            made, wanted = self._build(stage, wanted, is_last=stage == count - 1)
            built.append(made)
        return reversed(built)

    def _build(
        self, stage: int, wanted: list[fx.Node], *, is_last: bool
    ) -> tuple[Stage, list[fx.Node]]:
        """A stage that leaves what is wanted, and what it wants itself."""
        inside = [node for node in self._graph.nodes if self._stage_of[node] == stage]
        # The model's arguments, all of them, are in the first stage.
        needed = self._needed(stage, inside, wanted)
        taken = [node for node in needed if self._is_from_outside(node, stage)]
        self._check_sendable(stage, taken)
        made, copies = fx.Graph(), {}
        for node in taken:
            copies[node] = made.placeholder(node.name, default_value=_default(node, stage))
        for node in needed:
            if node not in copies and node.op != "output":
                copies[node] = made.node_copy(node, copies.__getitem__)
        (output,) = self._graph.find_nodes(op="output")
        left: Any = output.args[0] if is_last else tuple(wanted)
        made.output(fx.map_arg(left, copies.__getitem__))
        named = Stage(
            module=fx.GraphModule(self._model, made, class_name=f"Stage{stage}"),
            inputs=tuple(node.name for node in taken),
            outputs=tuple(node.name for node in wanted),
        )
        return named, taken

    def _check_sendable(self, stage: int, taken: list[fx.Node]) -> None:
        for node in taken if stage else ():
            if node not in self._has_tensors:
                raise ParallelError(
                    f"the argument {node.name} of the model is no tensor, and stage {stage} needs "
                    "it: only tensors go from stage to stage"
                )

    def _needed(self, stage: int, inside: list[fx.Node], wanted: list[fx.Node]) -> list[fx.Node]:
        """All nodes that stand in a stage, in order: its own, and what comes through or again."""
        needed = {*inside, *wanted}
        waiting = list(needed)
        while waiting:
            node = waiting.pop()
            if self._is_from_outside(node, stage):
                continue
            for each in node.all_input_nodes:
                if each not in needed:
                    needed.add(each)
                    waiting.append(each)
        return [node for node in self._graph.nodes if node in needed]

    def _is_from_outside(self, node: fx.Node, stage: int) -> bool:
        """Whether a node's value is given to a stage; what holds no tensor is worked out in it."""
        if node.op == "placeholder":
            return True
        return self._stage_of[node] < stage and node in self._has_tensors
