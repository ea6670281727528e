"""Shared memory for batches: slabs, and the access of processes on the same host to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.memory.batch_slabs import BatchSlabs, ReusedMemory
    from launcher.data.memory.held_batches import HeldBatches, aligned_copy
    from launcher.data.memory.pinning import Pinning, open_pinning
    from launcher.data.memory.receiver_client import ReceiverClient
    from launcher.data.memory.slabs import (
        LENT,
        MARK,
        RETURNED,
        SEEN,
        TAKEN,
        Slab,
        SlabPool,
        SlabViews,
    )

__getattr__ = open_door(__name__)
