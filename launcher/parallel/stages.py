"""Cutting a model into stages, each a module whose outputs are the next one's inputs.

A value that a later stage needs travels through all stages in between. Values that are not tensors
(a size, a flag) are recomputed where they are needed. Modules and parameters keep their names in
the model. A parameter that two stages use is in both, and its gradients must be added.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from launcher.errors import ParallelError
from launcher.parallel.cuts import Pins, assign_stages, check_in_place
from launcher.parallel.graph import holds_tensors, in_mode, preserved_random_state, trace

#: Operators like x += y.
_IN_PLACE = tuple(vars(operator)[f"i{name}"] for name in ("add", "sub", "mul", "truediv", "pow"))


@dataclass(frozen=True, kw_only=True)
class Value:
    """A tensor passed between stages. like: its shape, dtype and requires_grad, without storage."""

    name: str
    like: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a model. inputs, outputs: values from the previous stage and for the next one.

    The first stage takes the model's arguments (none of them in `inputs`). The last returns the
    model's output tensors, in the order of torch's pytrees. drawing: the modules that draw random
    numbers, each with the number of its calls in earlier stages.
    """

    module: fx.GraphModule
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    drawing: Mapping[str, int]


def cut(
    model: nn.Module, cuts: Sequence[str] | Pins, arguments: Mapping[str, object]
) -> list[Stage]:
    """Cut a model into stages.

    cuts: the module at which each stage but the first begins, or modules that are pinned.
    arguments: an example of the model's arguments; it is called with them once, and its buffers and
        the random states are restored. Raises ParallelError.
    """
    graph = trace(model)
    inspection = StageInspection(model, graph)
    values = inspection.run_example(arguments)
    stage_of = assign_stages(graph, cuts, values)
    return list(_Cutter(model, graph, stage_of, inspection).stages(max(stage_of.values()) + 1))


class StageInspection(fx.Interpreter):  # type: ignore[misc] # torch.fx types it as Any
    """Runs a model once and records the value of each node, with tensors on the meta device."""

    def __init__(self, model: nn.Module, graph: fx.Graph) -> None:
        super().__init__(fx.GraphModule(model, graph))
        self._model = model
        self.values: dict[fx.Node, Any] = {}
        #: The modules that draw random numbers in train mode.
        self.drawing: set[str] = set()

    def run_example(self, arguments: Mapping[str, object]) -> dict[fx.Node, object]:
        """Return the values of all nodes for these arguments."""
        given = list(self._in_order(arguments))
        buffers = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        try:
            with torch.enable_grad(), preserved_random_state(), in_mode(self._model, training=True):
                self.run(*given)
        except TypeError as error:
            raise self._explain(arguments, error) from error
        finally:
            with torch.no_grad():
                for name, buffer in self._model.named_buffers():
                    buffer.copy_(buffers[name])
        return self.values

    def run_node(self, n: fx.Node) -> Any:
        """Run a node and record its value and whether its module drew random numbers."""
        with preserved_random_state() as has_drawn:
            value = super().run_node(n)
            if n.op == "call_module" and has_drawn():
                self.drawing.add(str(n.target))
        self.values[n] = tree_map_only(torch.Tensor, on_meta, value)
        return value

    def _explain(self, arguments: Mapping[str, object], error: TypeError) -> Exception:
        """Return the error to raise; explain it if the model was called without some arguments."""
        names = [str(node.target) for node in self.module.graph.find_nodes(op="placeholder")]
        if not (missing := [name for name in names if name not in arguments]):
            return error
        first, *_ = str(error).splitlines()
        return ParallelError(
            f"{type(self._model).__name__} fails without {', '.join(missing)}: {first}; a model is "
            "traced with all its arguments: give them in the example, or move the code that tests "
            "for them into a module of its own"
        )

    def _in_order(self, arguments: Mapping[str, object]) -> Iterator[object]:
        for node in self.module.graph.find_nodes(op="placeholder"):
            if str(node.target) in arguments:
                yield arguments[str(node.target)]
            elif str(node.target).startswith("*"):
                raise ParallelError(
                    f"the forward of {type(self._model).__name__} takes {node.target}: name each "
                    "argument in its signature"
                )
            elif node.args:
                yield node.args[0]
            else:
                raise ParallelError(
                    f"the example lacks the required argument {node.target} of the model"
                )


def on_meta(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same shape, dtype and requires_grad on the meta device."""
    like = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return like.requires_grad_(tensor.requires_grad)


def _default(node: fx.Node, stage: int) -> Any:
    """Return the default value of an argument of the model; later stages have none."""
    return node.args[0] if stage == 0 and node.args else inspect.Signature.empty


class _Cutter:
    """Builds the stages of one graph."""

    def __init__(
        self,
        model: nn.Module,
        graph: fx.Graph,
        stage_of: dict[fx.Node, int],
        inspection: StageInspection,
    ) -> None:
        self._model = model
        self._graph = graph
        self._stage_of = stage_of
        self._values = inspection.values
        self._drawing = inspection.drawing

    def stages(self, count: int) -> Iterator[Stage]:
        """Return all stages, the first one first."""
        check_in_place(self._stage_of, self._works_in_place)
        wanted: list[fx.Node] = []  # by later stages
        built = []
        for stage in reversed(range(count)):
            built_stage, wanted = self._build(stage, wanted, is_last=stage == count - 1)
            built.append(built_stage)
        return reversed(built)

    def _build(
        self, stage: int, wanted: list[fx.Node], *, is_last: bool
    ) -> tuple[Stage, list[fx.Node]]:
        """Build a stage that outputs the wanted nodes; return it and its input nodes."""
        # All of the model's arguments are in the first stage.
        inside = [node for node in self._graph.nodes if self._stage_of[node] == stage]
        needed = self._needed(stage, inside, wanted)
        inputs = [node for node in needed if self._is_from_outside(node, stage)]
        self._check_sendable(stage, inputs)
        graph, copies = fx.Graph(), {}
        for node in inputs:
            copies[node] = graph.placeholder(node.name, default_value=_default(node, stage))
        for node in inputs if stage else ():
            if self._is_overwritten(node, needed):
                copies[node] = graph.call_method("clone", (copies[node],))
        for node in needed:
            if node not in copies and node.op != "output":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        (output,) = self._graph.find_nodes(op="output")
        result: Any = output.args[0] if is_last else tuple(wanted)
        graph.output(fx.map_arg(result, copies.__getitem__))
        built = Stage(
            module=fx.GraphModule(self._model, graph, class_name=f"Stage{stage}"),
            inputs=self._values_of(inputs if stage else []),
            outputs=self._returned(output) if is_last else self._values_of(wanted),
            drawing=self._drawing_in(stage),
        )
        return built, inputs

    def _values_of(self, nodes: list[fx.Node]) -> tuple[Value, ...]:
        return tuple(Value(name=node.name, like=self._values[node]) for node in nodes)

    def _drawing_in(self, stage: int) -> dict[str, int]:
        calls = [
            (str(node.target), self._stage_of[node])
            for node in self._graph.find_nodes(op="call_module")
            if str(node.target) in self._drawing
        ]
        here = {name for name, where in calls if where == stage}
        return {name: sum(n == name and w < stage for n, w in calls) for name in sorted(here)}

    def _returned(self, output: fx.Node) -> tuple[Value, ...]:
        leaves = tree_leaves(self._values[output])
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return tuple(Value(name=f"output {n}", like=like) for n, like in enumerate(tensors))

    def _check_sendable(self, stage: int, inputs: list[fx.Node]) -> None:
        for node in inputs if stage else ():
            if not holds_tensors(self._values[node]):
                raise ParallelError(
                    f"the model's argument {node.name} is not a tensor, but stage {stage} needs "
                    "it: only tensors are sent from stage to stage"
                )
            if not isinstance(self._values[node], torch.Tensor):
                raise ParallelError(
                    f"{node.name} is a {type(self._values[node]).__name__} of tensors, which stage "
                    f"{stage} needs as a whole: only single tensors are sent from stage to stage"
                )

    def _is_overwritten(self, node: fx.Node, needed: list[fx.Node]) -> bool:
        """Return whether a stage modifies an input in place, which autograd forbids."""
        return any(self._works_in_place(user) for user in node.users if user in needed)

    def _works_in_place(self, node: fx.Node) -> bool:
        if node.op == "call_module":
            return bool(getattr(self._model.get_submodule(str(node.target)), "inplace", False))
        if node.op == "call_method":
            return str(node.target).endswith("_") and not str(node.target).endswith("__")
        return bool(node.kwargs.get("inplace")) or node.target in _IN_PLACE

    def _needed(self, stage: int, inside: list[fx.Node], wanted: list[fx.Node]) -> list[fx.Node]:
        """Return all nodes of a stage, in order: own, passed through and recomputed ones."""
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
        """Return whether a node is an input of a stage.

        Values without tensors are recomputed in the stage instead.
        """
        if node.op == "placeholder":
            return True
        return self._stage_of[node] < stage and holds_tensors(self._values[node])
