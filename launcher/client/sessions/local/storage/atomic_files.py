"""Files that other processes read meanwhile: replaced atomically, as bytes or as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader sees either the old content or the new."""
    import tempfile  # those who only read need not wait for it

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
    """Replace a file with a JSON document."""
    write_atomically(path, json.dumps(value, indent=2).encode())


def read_json(path: Path) -> Any:
    """Return the value of a JSON document that `write_json` wrote; raise ValueError for another."""
    try:
        return json.loads(path.read_text())
    except RecursionError as error:
        raise ValueError("brackets too deep for a document of Launcher's") from error
