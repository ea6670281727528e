"""The hash that names a bundle, of bytes or of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

_PIECE = 1 << 20


def content_hash(content: bytes | Path) -> str:
    """Return the SHA-256 of bytes, or of a file that is read in pieces, in hexadecimal."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    found = hashlib.sha256()
    with content.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()
