"""No module of launcher imports itself through others, with imports inside functions counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import launcher

PACKAGE = Path(launcher.__file__).parent


def sources() -> dict[str, str]:
    """The text of each module, by its name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
        found[name.removesuffix(".__init__")] = path.read_text()
    return found


def cycle_among(texts: Mapping[str, str]) -> list[str]:
    """Some modules that import each other in a circle; empty if there are none."""
    graph = {name: set(imported(ast.parse(text), texts)) - {name} for name, text in texts.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def imported(tree: ast.AST, known: Mapping[str, str]) -> Iterator[str]:
    """The known modules that are imported anywhere in a module, but for its types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                part = f"{node.module}.{alias.name}"
                yield part if part in known else node.module
        yield from imported(node, known)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert cycle_among(sources()) == []


def test_an_import_in_a_function_closes_a_circle_and_one_for_types_does_not() -> None:
    low = "import a.high\nclass Low: ..."
    lazy = "def f():\n    from a import low"
    assert set(cycle_among({"a": "", "a.low": low, "a.high": lazy})) == {"a.low", "a.high"}
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.low import Low"
    assert cycle_among({"a": "", "a.low": low, "a.high": typed}) == []
