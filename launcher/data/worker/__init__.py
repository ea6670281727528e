"""Data workers: processes that prepare batches, on data hosts and optionally on train hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.worker.lease_state import LeaseState
    from launcher.data.worker.senders import FLOWS_PER_HOST, MAX_FLOWS, StripedSender
    from launcher.data.worker.worker import DataWorker

__getattr__ = open_door(__name__)
