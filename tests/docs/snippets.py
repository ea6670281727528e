"""The snippets of the README and the docs."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """A snippet, and the page and line where it begins."""

    page: str
    line: int
    text: str

    @property
    def name(self) -> str:
        """A module name for it."""
        return f"{re.sub('[^a-z0-9]', '_', self.page.lower())}_{self.line}"

    @property
    def complete(self) -> str:
        """The snippet, with the names that it expects of its surroundings declared as Any."""
        declared = "".join(f"{name}: Any\n" for name in sorted(free_names(ast.parse(self.text))))
        return f"from typing import Any\n{declared}{self.text}"


def snippets(language: str = "python") -> Iterator[Snippet]:
    """Yield the snippets of the README and of each page of the docs."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield from snippets_of(path, language)


def snippets_of(path: Path, language: str = "python") -> Iterator[Snippet]:
    """Yield the snippets of a page."""
    text = path.read_text()
    for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.M | re.S):
        yield Snippet(
            page=str(path.relative_to(ROOT)).removeprefix("docs/"),
            line=text.count("\n", 0, found.start(1)) + 1,
            text=found.group(1),
        )


def commands(snippet: Snippet) -> Iterator[str]:
    """Yield the command lines of a console snippet, without their remarks."""
    for line in snippet.text.splitlines():
        if line.startswith("$ "):
            yield re.sub(r" +# .*", "", line.removeprefix("$ "))


def free_names(tree: ast.Module) -> set[str]:
    """Return the names that a module reads before it binds them."""
    bound, free = set(dir(builtins)), set()
    for statement in tree.body:
        kept = set() if isinstance(statement, ast.Assign | ast.AnnAssign) else _bound(statement)
        inner = {name for part in ast.walk(statement) for name in _scoped(part)}
        free |= _read(statement) - bound - kept - inner
        bound |= _bound(statement)
    return free


def _read(tree: ast.AST) -> set[str]:
    names = (part for part in ast.walk(tree) if isinstance(part, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    names = {
        part.id
        for part in ast.walk(tree)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    for part in ast.walk(tree):
        if isinstance(part, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in part.names}
        elif isinstance(part, ast.FunctionDef | ast.ClassDef):
            names.add(part.name)
    return names


def _scoped(part: ast.AST) -> set[str]:
    """Return the names that a function, lambda or comprehension binds for itself."""
    if isinstance(part, ast.arg):
        return {part.arg}
    if isinstance(part, ast.comprehension | ast.NamedExpr):
        return _bound(part.target)
    return set()
