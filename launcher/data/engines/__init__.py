"""Data engines: what prepares the batches of a job, and how ranks read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.engines import forked_workers
    from launcher.data.engines.base import BatchSource, find_engine

__getattr__ = open_door(__name__)
