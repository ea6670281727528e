"""Main guards: scripts that can be imported without running what they do."""

from __future__ import annotations

import ast


def has_main_guard(source: str) -> bool:
    """Return whether a script has an `if __name__ == "__main__":` at its top level.

    >>> has_main_guard('if "__main__" == __name__: main()')
    True
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return True  # importing it says what is wrong
    return any(isinstance(each, ast.If) and _asks_for_main(each.test) for each in tree.body)


def _asks_for_main(test: ast.expr) -> bool:
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    texts = {node.value for node in ast.walk(test) if isinstance(node, ast.Constant)}
    return "__name__" in names and "__main__" in texts
