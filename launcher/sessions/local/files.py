"""Files that other processes read while they are written: replaced whole, never seen half."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file at once: a reader sees the old content or the new, and nothing between."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object) -> None:
    """Replace a file by a JSON document."""
    write_whole(path, json.dumps(value, indent=2).encode())


def read_json(path: Path) -> Any:
    """The value of a JSON document that `write_json` wrote."""
    return json.loads(path.read_text())
