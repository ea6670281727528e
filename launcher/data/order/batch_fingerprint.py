"""Fingerprints of batches, by which two preparations of one batch are compared."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from launcher.data.batches import Array

#: Bytes of an array that are hashed whole; of a larger one as many, in blocks spread over it.
_HASHED = 1 << 18
_BLOCK = 1 << 12


def fingerprint(tree: object, arrays: list[Array], before: str = "") -> str:
    """Return 16 hexadecimal digits for a batch, and for those that gave `before`.

    Arrays above 256 KiB count by 64 blocks of 4 KiB, besides their type and shape.
    """
    hashed = hashlib.blake2b(before.encode(), digest_size=8)
    hashed.update(json.dumps(tree).encode())
    for array in arrays:
        hashed.update(f"{array.dtype.str}{array.shape}".encode())
        for block in _blocks(array):
            hashed.update(block)
    return hashed.hexdigest()


def combined(fingerprints: list[str]) -> str:
    """Return one fingerprint for several, in this order."""
    return hashlib.blake2b(" ".join(fingerprints).encode(), digest_size=8).hexdigest()


def _blocks(array: Array) -> list[memoryview]:
    if array.size == 0:
        return []
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if raw.size <= _HASHED:
        return [raw.data]
    count = _HASHED // _BLOCK
    starts = (number * (raw.size - _BLOCK) // (count - 1) for number in range(count))
    return [raw[start : start + _BLOCK].data for start in starts]
