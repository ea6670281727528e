"""The data service: batches prepared on the data group, and the loader that reads them.

The public names are imported on first use: workers and the dispatcher need none of the loader.

What a script sees is here: the `loader`, and `reading`, one pass of it; `state`, its place; its
batches come from `sources`: this process, or the `service`. The packages are layers, each on top of
those after it:

dispatcher, worker, receiver    the processes of the data service (`python -m` runs them)
memory      what a receiver shares with the ranks of its host
figures     what it took
control     what the processes say to each other
order       which samples are in which batch
batches     what a batch is, and its bytes
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.data.loader import DataLoader
    from launcher.data.order.current_shard import shard

_HOMES = {"DataLoader": "loader", "shard": "order.current_shard"}

__all__ = ["DataLoader", "shard"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
