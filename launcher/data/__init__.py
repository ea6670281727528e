"""The data service: batches prepared on the data group, and the loader that reads them.

The public names are imported on first use: workers and the dispatcher need none of the loader.

What a script sees: `loader`, and `reading`, one pass of it; `state`, its place; `sources` of its
batches: this process, or the `service`; `pinning`; `current_shard`.
Which bytes a batch is: `streams`, `references`, `orders`, `plan` and `steps`; `shards`, `laps` and
`lanes` of iterable datasets; `samples`, `collation`, `seeding`.
Who prepares it: the `dispatcher` with its `desk` and its `peer`s, and what they know: `ledger`,
`leases`, `counts`, `runs`, `fleet`, `owners`, `ranking`, `served`, `readers`, `troubles`;
`messages` with their `fields`, over `control`; the `worker` with its `holdings`; the `account` of a
receiver.
How it travels: `structure`, `tensors` and `wire`; `flows` and `sharing` out of a worker; the
`receiver` with `arrivals`, `store`, `slabs`, `neighbours` and `limits`; a `borrower` of slabs.
What it took: `meters` and `cpu`; `metrics` of all, `publishing`, `prometheus`, `scrape`; the
`verdict` from what was `observed`, also for a job `alone`.
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
