"""The names that a module of the user's defines, found by reading it: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def defined_names(module: ast.Module) -> Iterator[str]:
    """Yield the names that a module may bind in its own scope, "*" for unknown ones.

    >>> sorted(defined_names(ast.parse("import a.b; c = d; from e import *")))
    ['*', 'a', 'c']
    """
    left: list[ast.AST] = [module]
    while left:
        node = left.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield "*" if node.name == "__getattr__" else node.name
                continue
            case ast.comprehension():  # its variable is its own
                left += node.iter, *node.ifs
                continue
            case ast.alias():
                yield node.asname or node.name.partition(".")[0]
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Call(func=ast.Name(id="globals" | "vars" | "exec" | "setattr")):
                yield "*"
        left += ast.iter_child_nodes(node)
