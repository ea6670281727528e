"""The data service: batches prepared on the data group, and the loader that reads them.

The public names are imported on first use: workers and the dispatcher need none of the loader.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.data.current_shard import shard
    from launcher.data.loader import DataLoader

_HOMES = {"DataLoader": "loader", "shard": "current_shard"}

__all__ = ["DataLoader", "shard"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
