"""No module of launcher imports itself through others, with imports inside functions counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from sources import Source, sources


def cycle_among(modules: Mapping[str, Source]) -> list[str]:
    """Some modules that import each other in a circle; empty if there are none."""
    graph = {name: set(imported(each, modules)) - {name} for name, each in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imported(source: Source, known: Mapping[str, Source]) -> Iterator[str]:
    """The known modules that are imported anywhere in a module, but for its types alone."""
    for node in source.imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif node.module in known:
            for alias in node.names:
                part = f"{node.module}.{alias.name}"
                yield part if part in known else node.module


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle_among({name: source for name, (_, source) in sources("launcher").items()}) == []


def cycle_of(texts: Mapping[str, str]) -> list[str]:
    return cycle_among({name: Source.read(text) for name, text in texts.items()})


def test_an_import_in_a_function_closes_a_circle_and_one_for_types_does_not() -> None:
    low = "import a.high\nclass Low: ..."
    lazy = "def f():\n    from a import low"
    assert set(cycle_of({"a": "", "a.low": low, "a.high": lazy})) == {"a.low", "a.high"}
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.low import Low"
    assert cycle_of({"a": "", "a.low": low, "a.high": typed}) == []
