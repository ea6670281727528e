"""The modules of a model at which a stage can begin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from torch import nn

from launcher.parallel.cuts import is_in
from launcher.parallel.graph import trace


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
