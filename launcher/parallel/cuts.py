"""Assignment of each node of a model's graph to a stage, and the modules where one can begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import fx, nn

from launcher.errors import ParallelError
from launcher.parallel.cutting.graph import Trace, trace
from launcher.parallel.tracing import Constant, Rebuild, Same, leaf
from launcher.shared import did_you_mean

#: The name of a module, and the number of its call.
Call = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Pins:
    """Modules that are pinned to stages, by name, each with all its submodules.

    default: the stage of modules that are not pinned, except those that need data of a later one.
    """

    stages: Mapping[str, int]
    default: int = 0

    def stage_of(self, name: str, latest: int) -> int:
        """Return the stage of a module: that of the innermost pinned module around it.

        latest: the latest stage whose data the module needs.
        """
        around = [pinned for pinned in self.stages if is_in(name, pinned)]
        return self.stages[max(around, key=len)] if around else max(self.default, latest)


def is_in(name: str, outer: str) -> bool:
    """Return whether a module is another one or a part of it."""
    return name == outer or name.startswith(f"{outer}.")


def assign_stages(trace: Trace, cuts: Sequence[str] | Pins) -> dict[fx.Node, int]:
    """Return the stage of each node of a trace. Raises ParallelError."""
    if isinstance(cuts, Pins):
        _check_pins(trace, cuts)
        return _assign_by_pins(trace, lambda node, latest: cuts.stage_of(str(node.target), latest))
    return _assign_by_starts(trace, cuts)


def assign_again(
    trace: Trace, cuts: Sequence[str] | Pins, stages: Mapping[Call, int]
) -> dict[fx.Node, int]:
    """Return the stage of each node of a trace with fewer modules opened.

    stages: of each call of a module, as an assignment before gave them.
    """

    def stage_of(node: fx.Node) -> int:
        return stages.get(node.meta["calls"][-1], 0)

    if isinstance(cuts, Pins):
        return _assign_by_pins(trace, lambda node, latest: stage_of(node))
    return _place_followers(trace, _run_through(trace, stage_of))


def assign_evaluation(
    evaluation: Trace, cuts: Sequence[str] | Pins, stages: Mapping[Call, int]
) -> dict[fx.Node, int]:
    """Return the stage of each node of a trace in eval mode: that of the same call in train mode.

    stages: of each call of a module in train mode; calls of eval mode only follow those before.
    Raises ParallelError.
    """
    if isinstance(cuts, Pins):
        pinned = cuts.stage_of
        found = _assign_by_pins(
            evaluation,
            lambda node, latest: stages.get(
                node.meta["calls"][-1], pinned(str(node.target), latest)
            ),
        )
    else:
        found = _follow(evaluation, stages)
    last = max(stages.values(), default=0)
    (output,) = evaluation.graph.find_nodes(op="output")
    found[output] = last
    filled = {stage for node, stage in found.items() if node.op == "call_module"}
    for stage in range(last + 1):
        if stage not in filled:
            raise ParallelError(
                f"stage {stage} calls no module in eval mode: cut at modules that the model also "
                "calls in eval mode"
            )
    for node in found:
        _check_forward(node, found, "in eval mode, ")
    return found


def _follow(evaluation: Trace, stages: Mapping[Call, int]) -> dict[fx.Node, int]:
    current = 0

    def stage_of(node: fx.Node) -> int:
        nonlocal current
        current = stages.get(node.meta["calls"][-1], current)
        return current

    return _place_followers(evaluation, _run_through(evaluation, stage_of))


def _assign_by_starts(trace: Trace, starts: Sequence[str]) -> dict[fx.Node, int]:
    """Return the stage of each node: the number of starts at or before it."""
    remaining = list(starts)

    def stage_of(node: fx.Node) -> int:
        if remaining and is_in(str(node.target), remaining[0]):
            remaining.pop(0)
        return len(starts) - len(remaining)

    found = _run_through(trace, stage_of)
    if remaining:
        raise ParallelError(
            f"no stage can start at {remaining[0]!r} here: the model calls its modules in this "
            f"order: {', '.join(_called(trace.graph))}{_why_whole(trace, remaining[0])}"
        )
    return _place_followers(trace, found)


def _why_whole(trace: Trace, name: str) -> str:
    """Return why the module around a module is a single call, and how to change that, or ""."""
    around = [path for path in trace.reasons if is_in(name, path) and path != name]
    if not around:
        return ""
    outer = min(around, key=len)
    return (
        f"; {outer} stays whole: {trace.reasons[outer]}; name {outer} itself, or move what does so "
        "into a module of its own"
    )


def _run_through(trace: Trace, stage_of: Callable[[fx.Node], int]) -> dict[fx.Node, int]:
    """Return the stage of each node: that of the call of a module at or before it."""
    found: dict[fx.Node, int] = {}
    current = 0
    for node in trace.graph.nodes:
        if node.op == "call_module":
            current = stage_of(node)
        owner = _owner(node)  # a tuple is unpacked in the stage that created it
        found[node] = current if owner is None else found[owner]
        if node.op == "placeholder":
            found[node] = 0
    return found


def _place_followers(trace: Trace, stage_of: dict[fx.Node, int]) -> dict[fx.Node, int]:
    """Put parameters, constants and arguments into the first stage that uses them."""
    for node in reversed(trace.graph.nodes):
        follows = node.op == "get_attr" or isinstance(node.target, (Constant, Rebuild))
        if follows and node.users:
            stage_of[node] = min(stage_of[user] for user in node.users)
    return stage_of


def _assign_by_pins(
    trace: Trace, stage_of_call: Callable[[fx.Node, int], int]
) -> dict[fx.Node, int]:
    """Return the stage of each node: that of its module, else of its latest input.

    stage_of_call: called with the call of a module, and the latest stage of its inputs.
    """
    stage_of: dict[fx.Node, int] = {}
    for node in trace.graph.nodes:
        latest = max((stage_of[each] for each in _tensor_inputs(node)), default=0)
        if node.op == "call_module":
            stage_of[node] = stage_of_call(node, latest)
            _check_forward(node, stage_of)
        else:
            stage_of[node] = latest
    _place_followers(trace, stage_of)
    (output,) = trace.graph.find_nodes(op="output")
    stage_of[output] = max(stage_of.values())
    _check_filled(stage_of)
    return stage_of


def _tensor_inputs(node: fx.Node) -> list[fx.Node]:
    """Return the inputs of a node, except parameters."""
    return [each for each in node.all_input_nodes if each.op != "get_attr"]


def _owner(node: fx.Node) -> fx.Node | None:
    """Return the structure that a node takes a part of, or that it checks."""
    is_part = node.target is leaf or isinstance(node.target, Same)
    return node.all_input_nodes[0] if is_part else None


def _check_pins(trace: Trace, pins: Pins) -> None:
    called = _called(trace.graph)
    for name, stage in pins.stages.items():
        if not any(is_in(each, name) for each in called):
            near = did_you_mean(name, called)
            hint = f"did you mean {near!r}?" if near else f"it calls {', '.join(called)}"
            hint += _why_whole(trace, name)
            raise ParallelError(f"{name!r} is pinned, but the model calls no such module: {hint}")
        if type(stage) is not int or stage < 0:
            raise ParallelError(
                f"{name!r} is pinned to stage {stage!r}: stages are numbered from 0"
            )


def _check_forward(node: fx.Node, stage_of: Mapping[fx.Node, int], when: str = "") -> None:
    late = [each for each in _tensor_inputs(node) if stage_of[each] > stage_of[node]]
    if late:
        raise ParallelError(
            f"{when}{node.target} in stage {stage_of[node]} needs {late[0].name} of the later "
            f"stage {stage_of[late[0]]}, but data only goes to later stages: pin {node.target} to "
            f"stage {stage_of[late[0]]} or a later one"
        )


def _check_filled(stage_of: Mapping[fx.Node, int]) -> None:
    modules = {stage for node, stage in stage_of.items() if node.op == "call_module"}
    missing = sorted(set(range(max(stage_of.values()) + 1)) - modules)
    if missing:
        raise ParallelError(f"stage {missing[0]} has no module: pin a module to it")


def _called(graph: fx.Graph) -> list[str]:
    return [str(node.target) for node in graph.find_nodes(op="call_module")]


def check_in_place(stage_of: Mapping[fx.Node, int]) -> None:
    """Reject an in-place operation that follows an operation of a later stage in the model's code.

    Run stage by stage, they would overwrite tensors that the later stage has not used yet.
    """
    highest = 0
    for node, stage in stage_of.items():
        if node.meta.get("writes") and stage < highest:
            raise ParallelError(
                f"{node.name} modifies a tensor in place in stage {stage}, but the later stage "
                f"{highest} may need the old value: use an operation that is not in place, or move "
                f"it to stage {highest}"
            )
        highest = max(highest, stage)


def boundaries(model: nn.Module, arguments: Mapping[str, object]) -> list[str]:
    """Return the modules, in order, at which a stage can begin.

    The first module that the model calls is not among them, nor any that it calls several times.
    arguments: as for `stages.cut`, whose cuts can be any of these modules. Raises ParallelError.
    """
    graph = trace(model, arguments).graph
    called = [str(node.target) for node in graph.find_nodes(op="call_module")]
    counts = Counter(called)
    return [
        name
        for name in called[1:]
        if counts[name] == 1 and sum(is_in(each, name) for each in counts) == 1
    ]


def largest_uncut(model: nn.Module, arguments: Mapping[str, object]) -> tuple[str, float]:
    """Return the largest module in which no stage can begin, and its share of all parameters.

    arguments: as for `boundaries`. Raises ParallelError.
    """
    found = trace(model, arguments).graph.find_nodes(op="call_module")
    sizes = {name: _size(model.get_submodule(name)) for name in map(str, (n.target for n in found))}
    name = max(sizes, key=sizes.__getitem__, default="")
    return name, sizes.get(name, 0) / max(_size(model), 1)


def _size(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())
