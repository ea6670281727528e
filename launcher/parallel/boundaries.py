"""The modules of a model at which a stage can begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import torch
from torch import fx, nn

from launcher.parallel.cuts import assign_stages, is_in
from launcher.parallel.graph import holds_tensors, trace
from launcher.parallel.stages import StageInspection


def boundaries(model: nn.Module, arguments: Mapping[str, object]) -> list[str]:
    """Return the modules, in order, at which a stage can begin.

    The first module that the model calls is not among them, nor any that it calls several times.
    Only single tensors can be sent across a cut, over any number of stages. arguments: as for
    `stages.cut`, whose cuts can be any of these modules. Raises ParallelError.
    """
    graph = trace(model)
    values = StageInspection(model, graph).run_example(arguments)
    names = list(_candidates(graph))
    stage_of = assign_stages(graph, names, values)
    closed: set[int] = set()
    for node, last in _reach(graph, stage_of, values).items():
        if not _can_be_sent(node, values[node]):
            closed.update(range(stage_of[node] + 1, last + 1))
    return [name for stage, name in enumerate(names, 1) if stage not in closed]


def _candidates(graph: fx.Graph) -> Iterator[str]:
    called = [str(node.target) for node in graph.find_nodes(op="call_module")]
    counts = Counter(called)
    for name in called[1:]:
        if counts[name] == 1 and sum(is_in(each, name) for each in counts) == 1:
            yield name


def _reach(
    graph: fx.Graph, stage_of: Mapping[fx.Node, int], values: Mapping[fx.Node, object]
) -> dict[fx.Node, int]:
    """Return the last stage that needs each node's value, if all candidates were cuts."""
    last = dict(stage_of)
    for node in reversed(graph.nodes):
        # A value without tensors is recomputed in each stage that needs it, from its own inputs.
        needed = stage_of[node] if _is_sent(node, values) else last[node]
        for source in node.all_input_nodes:
            last[source] = max(last[source], needed)
    return last


def _is_sent(node: fx.Node, values: Mapping[fx.Node, object]) -> bool:
    return node.op in ("placeholder", "output") or holds_tensors(values[node])


def _can_be_sent(node: fx.Node, value: object) -> bool:
    """Return whether there can be a cut between a node and its users."""
    if isinstance(value, torch.Tensor):
        return True
    return node.op != "placeholder" and not holds_tensors(value)
