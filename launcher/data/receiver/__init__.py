"""The receiver: one process on each train host that receives batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.receiver import host_limits
    from launcher.data.receiver.arrivals import Arrivals
    from launcher.data.receiver.batch_buffer import BatchBuffer
    from launcher.data.receiver.host_limits import memory_bytes
    from launcher.data.receiver.local_peers import MAX_COALESCED, LocalPeer, coalesced_batches
    from launcher.data.receiver.progress_reporter import ProgressReporter
    from launcher.data.receiver.receiver import Receiver

__getattr__ = open_door(__name__)
