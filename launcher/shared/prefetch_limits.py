"""Limits of how far the data service prepares ahead of the ranks: arithmetic of both worlds."""

from __future__ import annotations

#: Batches ahead of a rank, if memory allows, unless many workers serve it.
USUAL_WINDOW = 256
#: Batches for each worker of a rank: one is prepared, one waits behind it, one has arrived.
WINDOW_PER_WORKER = 3
#: Maximum number of batches ahead of a rank, for any number of workers and any batch size.
MAX_WINDOW = 1 << 14
#: A prefetch beyond this share of a host's memory leaves too little for the script.
PREFETCH_SHARE = 0.5
_KIB_64 = 64 * 1024
_MIB = 1 << 20
_MARK_BYTES = 2


def window_for(workers: int, ranks: int) -> int:
    """Return the number of batches ahead of each rank that keeps all workers busy."""
    return min(MAX_WINDOW, max(USUAL_WINDOW, WINDOW_PER_WORKER * workers // max(1, ranks)))


def slab_bytes(size: int) -> int:
    """Return the bytes of shared memory for a batch of `size` bytes and its marks.

    Sizes are multiples of 64 KiB up to 1 MiB, and of 1 MiB above.
    """
    unit = _KIB_64 if size < _MIB else _MIB
    return ((size + _MARK_BYTES - 1) // unit + 1) * unit
