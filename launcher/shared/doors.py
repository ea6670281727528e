"""Doors of rooms: a package lists in its `__init__` what others may use, imported on first use.

    if TYPE_CHECKING:
        from launcher.client.request.builder import build_request

    __getattr__ = open_door(__name__)

Other rooms import from the package alone, so the modules of a room may be split, moved and renamed.
"""

from __future__ import annotations

import _ast  # `ast` takes longer to import than all of a door
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any


def open_door(room: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a package, for the names that its TYPE_CHECKING block imports.

    It raises AttributeError for any other name.
    """
    homes: dict[str, str] = {}

    def find(name: str) -> object:
        if not homes:
            homes.update(_listed(room))
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        home = homes[name]
        if home == room or not hasattr(import_module(home), name):  # a module
            found: object = import_module(f"{home}.{name}")
        else:
            found = getattr(sys.modules[home], name)
        setattr(sys.modules[room], name, found)
        return found

    return find


def _listed(room: str) -> Iterator[tuple[str, str]]:
    """Yield each name of a door, and the module that it is imported from."""
    spec = sys.modules[room].__spec__
    source = spec.loader.get_source(room)  # type: ignore[union-attr]  # of a file, or of a zip
    tree: Any = compile(source, room, "exec", _ast.PyCF_ONLY_AST)
    for block in tree.body:
        if isinstance(block, _ast.If):
            for line in block.body:
                if isinstance(line, _ast.ImportFrom):
                    yield from ((each.name, str(line.module)) for each in line.names)
