"""Files that other processes read meanwhile: replaced atomically, as bytes or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by one that its owner alone reads: the old content is seen, or the new."""
    from launcher.shared import replacing  # those who only read need not wait for it

    with replacing(path) as draft:
        draft.touch(0o600, exist_ok=False)
        draft.write_bytes(content)


def write_json(path: Path, value: object) -> None:
    """Replace a file with a JSON document."""
    write_atomically(path, json.dumps(value, indent=2).encode())


def read_json(path: Path) -> Any:
    """Return the value of a JSON document that `write_json` wrote; raise ValueError for another."""
    try:
        return json.loads(path.read_text())
    except RecursionError as error:
        raise ValueError("brackets too deep for a document of Launcher's") from error
