"""Cut a model into stages, each a module whose outputs are the next one's inputs, and merge them.

A value that a later stage needs travels through all stages in between. Values that are not tensors
(a size, a flag) are those of the example. Modules and parameters keep their names in the model. A
parameter that two stages use is in both, and its gradients must be added.
"""

from __future__ import annotations

import keyword
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx, nn
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_leaves

from launcher.errors import ParallelError
from launcher.parallel.cuts import (
    Call,
    Pins,
    assign_again,
    assign_evaluation,
    assign_stages,
    check_in_place,
)
from launcher.parallel.cutting.graph import Trace, trace, trace_opened
from launcher.parallel.cutting.shared_state import Readers
from launcher.parallel.cutting.stage_checks import check_output, check_state
from launcher.parallel.tracing import code_of

#: Names of attributes of a stage, which is a GraphModule, that modules do not have.
_TAKEN = {*dir(fx.GraphModule), "meta", "shape_env"}.difference(dir(nn.Module))


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
    numbers, each with the number of its calls in earlier stages; "encoder." is a module whose own
    code does, and "" the model. changing: the modules of the whole model whose calls change their
    state. recomputed: those that the model calls by torch's checkpoint. evaluation: the stage for
    eval mode, if the model's own code does something else there; all that it uses is in `module` as
    well.
    """

    module: fx.GraphModule
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    drawing: Mapping[str, int]
    changing: frozenset[str] = frozenset()
    recomputed: frozenset[str] = frozenset()
    evaluation: Stage | None = None

    def in_mode(self, training: bool) -> Stage:
        """Return the stage for train or eval mode."""
        return self if training or self.evaluation is None else self.evaluation

    def move(self, device: torch.device) -> None:
        """Move the stage to a device; tensors that its code creates, too."""
        self.module.to(device)
        if self.evaluation is not None:
            self.evaluation.move(device)
        if device.type == "cpu":
            return

        def moved(value: object) -> object:
            return device if isinstance(value, torch.device) and value.type == "cpu" else value

        for node in self.module.graph.nodes:
            node.args = map_aggregate(node.args, moved)
            node.kwargs = map_aggregate(node.kwargs, moved)
        self.module.recompile()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A trace whose nodes have stages. drawing: by stage, see Stage. evaluation: in eval mode."""

    trace: Trace
    stage_of: dict[fx.Node, int]
    drawing: Sequence[Mapping[str, int]]
    evaluation: Plan | None = None

    def build(self, model: nn.Module) -> list[Stage]:
        """Return the stages."""
        stages = list(_Cutter(model, self).stages(len(self.drawing)))
        if self.evaluation is None:
            return stages
        pairs = zip(stages, self.evaluation.build(model), strict=True)
        return [_with_evaluation(model, stage, other) for stage, other in pairs]


def _with_evaluation(model: nn.Module, stage: Stage, evaluation: Stage) -> Stage:
    """Return a stage of both modes, whose module holds whatever one of them uses."""
    used = container(model, [stage.module, evaluation.module], type(stage.module).__name__)
    used.graph = stage.module.graph
    return replace(stage, module=used, evaluation=evaluation)


def container(model: nn.Module, parts: Sequence[fx.GraphModule], name: str) -> fx.GraphModule:
    """Return a module that holds what some parts of a model use; it cannot be called."""
    names = {(node.op, str(node.target)): None for part in parts for node in part.graph.nodes}
    graph = fx.Graph()
    for op, target in names:
        if op in ("call_module", "get_attr"):
            graph.create_node(op, target)
    return fx.GraphModule(model, graph, class_name=name)


def cut(
    model: nn.Module,
    cuts: Sequence[str] | Pins,
    arguments: Mapping[str, object],
    *,
    apart: bool = False,
    loss: object = None,
) -> list[Stage]:
    """Cut a model into stages.

    cuts: the module at which each stage but the first begins, or modules that are pinned.
    arguments: an example of the model's arguments; it is called with them a few times, and its
        state and the random states are restored.
    apart: whether stages will have copies of Python's state, each its own, on several ranks.
    loss: what the last stage's rank calls beside it.

    Raises ParallelError, also if the stages do not compute what the model does.
    """
    found = plan(model, cuts, arguments)
    stages = found.build(model)
    check_state(model, stages, found.trace.changing)
    readers = Readers(model, loss) if apart else None
    check_output(model, stages, arguments, readers, in_order=not isinstance(cuts, Pins))
    return stages


def plan(model: nn.Module, cuts: Sequence[str] | Pins, arguments: Mapping[str, object]) -> Plan:
    """Assign whatever a model calls to stages. Arguments and errors as for `cut`."""
    deep = trace(model, arguments)
    stage_of = assign_stages(deep, cuts)
    calls = _stages_of_calls(stage_of)
    opened = {name for (name, _), found in calls.items() if len(found) > 1}
    # What is within one stage is called as it is.
    shallow = trace_opened(model, arguments, opened, deep)
    _check_names(model, shallow)
    placed = {call: max(found) for call, found in calls.items()}
    stage_of = assign_again(shallow, cuts, placed)
    count = max(stage_of.values()) + 1
    return Plan(
        trace=shallow,
        stage_of=stage_of,
        drawing=_drawing(deep, calls, opened, count),
        evaluation=_plan_evaluation(deep, shallow, cuts, placed, opened),
    )


def _check_names(model: nn.Module, found: Trace) -> None:
    """Reject names that the code of torch.fx cannot have."""
    own = (*model._modules, *model._parameters, *model._buffers)
    if taken := next(filter(_TAKEN.__contains__, own), None):
        raise ParallelError(
            f"{type(model).__name__} has a part called {taken!r}, which is the name of an "
            "attribute of torch.fx's modules, of which stages are made: rename it"
        )
    for graph in [each.graph for each in (found, found.evaluation) if each is not None]:
        named = [str(node.target) for node in graph.nodes if node.op in ("call_module", "get_attr")]
        if wrong := next(
            (name for name in named if any(map(keyword.iskeyword, name.split(".")))), ""
        ):
            raise ParallelError(
                f"the name of {wrong} contains a keyword of Python, which code made by torch.fx "
                "cannot contain: rename it"
            )


def _plan_evaluation(
    deep: Trace,
    shallow: Trace,
    cuts: Sequence[str] | Pins,
    placed: Mapping[Call, int],
    opened: Collection[str],
) -> Plan | None:
    if deep.evaluation is None or shallow.evaluation is None:
        return None
    calls = _stages_of_calls(assign_evaluation(deep.evaluation, cuts, placed))
    here = {call: max(found) for call, found in calls.items()}
    return Plan(
        trace=shallow.evaluation,
        stage_of=assign_evaluation(shallow.evaluation, cuts, {**here, **placed}),
        drawing=_drawing(deep.evaluation, calls, opened, max(placed.values()) + 1),
    )


def _stages_of_calls(stage_of: Mapping[fx.Node, int]) -> dict[Call, set[int]]:
    """Return the stages of each call of a module, or of what it calls."""
    found: dict[Call, set[int]] = defaultdict(set)
    for node, stage in stage_of.items():
        for call in node.meta.get("calls", ()):
            found[call].add(stage)
    return found


def _drawing(
    deep: Trace, calls: Mapping[Call, set[int]], opened: Collection[str], count: int
) -> list[dict[str, int]]:
    """Return, for each stage, what draws in it, with the number of its calls in earlier stages.

    Draws of modules that are opened are in the graphs of stages.
    """
    where = [
        (drawing, max(found))
        for (name, _), found in calls.items()
        for drawing in {name, code_of(name)} & deep.drawing
        if not drawing or name not in opened
    ]
    return [
        {
            name: sum(other == name and at < stage for other, at in where)
            for name in sorted(name for name, at in where if at == stage)
        }
        for stage in range(count)
    ]


class _Cutter:
    """Builds the stages of one graph."""

    def __init__(self, model: nn.Module, plan: Plan) -> None:
        self._model = model
        self._graph = plan.trace.graph
        self._stage_of = plan.stage_of
        self._values = plan.trace.values
        self._drawing = plan.drawing
        self._changing = plan.trace.changing
        self._recomputed = plan.trace.recomputed

    def stages(self, count: int) -> Iterator[Stage]:
        """Return all stages, the first one first."""
        check_in_place(self._stage_of)
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
            copies[node] = graph.placeholder(node.name)
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
            drawing=self._drawing[stage],
            changing=self._changing,
            recomputed=self._recomputed,
        )
        return built, inputs

    def _values_of(self, nodes: list[fx.Node]) -> tuple[Value, ...]:
        return tuple(Value(name=node.name, like=self._values[node]) for node in nodes)

    def _returned(self, output: fx.Node) -> tuple[Value, ...]:
        leaves = tree_leaves(self._values[output])
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return tuple(Value(name=f"output {n}", like=like) for n, like in enumerate(tensors))

    def _check_sendable(self, stage: int, inputs: list[fx.Node]) -> None:
        for node in inputs if stage else ():
            if not isinstance(self._values[node], torch.Tensor):
                raise ParallelError(
                    f"{node.name} is a {type(self._values[node]).__name__} of tensors, which stage "
                    f"{stage} needs as a whole: only single tensors are sent from stage to stage"
                )

    def _is_overwritten(self, node: fx.Node, needed: list[fx.Node]) -> bool:
        """Return whether a stage modifies an input, or a view of it, which autograd forbids."""
        place = node.meta["place"]
        return any(
            place == each.meta.get("place")
            for writing in needed
            if writing.meta.get("writes")
            for each in writing.all_input_nodes
        )

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
        """Return whether a node is an input of a stage."""
        return node.op == "placeholder" or self._stage_of[node] < stage


def assign_unused(model: nn.Module, stages: Sequence[Stage]) -> None:
    """Complete the stages so that together they have exactly the state_dict of the model.

    Whatever no stage uses goes to the first one, so that it is saved. Raises ParallelError for what
    only code of the model itself saves, which no stage has.
    """
    whole = model.state_dict(keep_vars=True)
    held: set[int] = set()
    saved = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    saved |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    for stage in stages:
        for name, value in stage.module.state_dict(keep_vars=True).items():
            held.add(id(value))
            saved.add(name)
            if name not in whole:  # torch.fx makes buffers persistent that traced code reads
                _put(stage.module, name, value, persistent=False)
    for name, value in whole.items():
        if name not in saved:
            raise ParallelError(
                f"the state_dict of {type(model).__name__} has {name!r}, which no stage would "
                "save, since stages do not have the code that adds it (get_extra_state, "
                "state_dict): move that code into a module that stays whole"
            )
        if isinstance(value, torch.Tensor) and id(value) not in held:
            _put(stages[0].module, name, value)


def merge_stages(model: nn.Module, stages: Sequence[Stage]) -> nn.Module:
    """Return a module with all modules and parameters of several stages; it cannot be called.

    They are under the model's own names. A single stage is returned as it is.
    """
    if len(stages) == 1:
        return stages[0].module
    of_both_modes = [each.in_mode(mode).module for each in stages for mode in (True, False)]
    merged = container(model, of_both_modes, "Stages")
    whole = model.state_dict(keep_vars=True)
    for stage in stages:
        for name, value in (*stage.module.named_parameters(), *stage.module.named_buffers()):
            _put(merged, name, value, persistent=name in whole)
    return merged


def _put(module: nn.Module, name: str, value: object, *, persistent: bool = True) -> None:
    """Set a module's parameter or buffer by its dotted name; create modules that are missing."""
    *path, leaf = name.split(".")
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, nn.Module())
        module = getattr(module, part)
    if isinstance(value, nn.Parameter):
        module.register_parameter(leaf, value)
    else:
        module.register_buffer(leaf, value, persistent=persistent)
