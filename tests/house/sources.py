"""What tests of the house read of a file of Python: once for all, without keeping its tree."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The parts of a statement that hold statements, which alone can import or define.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True, kw_only=True)
class Source:
    """imports: those in functions too. classes: at its top, by name. docstrings: their openings."""

    imports: tuple[ast.Import | ast.ImportFrom, ...]
    imports_for_types: tuple[ast.Import | ast.ImportFrom, ...]
    classes: dict[str, int]
    docstrings: tuple[tuple[int, str], ...]
    annotations: tuple[frozenset[str], ...]  # the names in each function's

    @classmethod
    def read(cls, text: str) -> Source:
        tree = ast.parse(text)
        nodes = list(_statements(tree))
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        typed = [n for node in nodes if _is_for_types(node) for n in _imports(_statements(node))]
        documented = [(node, ast.get_docstring(node)) for node in (tree, *classes, *functions)]
        return cls(
            imports=tuple(node for node in _imports(nodes) if node not in typed),
            imports_for_types=tuple(typed),
            classes={node.name: node.lineno for node in classes if node in tree.body},
            docstrings=tuple(
                (getattr(node, "lineno", 1), text.splitlines()[0])
                for node, text in documented
                if text
            ),
            annotations=tuple(map(_annotated_names, functions)),
        )


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for block in _BLOCKS:
        for each in getattr(node, block, ()):
            yield each
            yield from _statements(each)


def _imports(nodes: Iterator[ast.AST] | list[ast.AST]) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _annotated_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    arguments = [node.annotation for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    annotations = [each for each in (*arguments, function.returns) if each is not None]
    nodes = (node for each in annotations for node in ast.walk(each))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


@functools.cache
def sources(folder: str) -> dict[str, tuple[Path, Source]]:
    """Each file of a folder of the tree, by its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): (
            path,
            Source.read(path.read_text()),
        )
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
