"""Files shared with other processes: replaced atomically, and accessible to our user."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launcher.errors import PlatformError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: a reader sees either the old content or the new."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


@contextmanager
def translate_write_errors(path: Path) -> Iterator[None]:
    """Turn an OSError while writing to a user-chosen path into a PlatformError."""
    try:
        yield
    except OSError as error:
        raise PlatformError(
            f"cannot write to {path}: {error.strerror}: free space there, or choose another folder "
            "(LAUNCHER_HOME is the folder of local jobs)"
        ) from error


def nearest_existing(path: Path) -> Path:
    """Return the path, or its nearest ancestor that exists."""
    return next(place for place in (path, *path.parents) if os.path.lexists(place))


def write_obstacle(folder: Path) -> str | None:
    """Return why a folder, which may not exist yet, is not writable; None if it is."""
    place = nearest_existing(folder)
    if not place.is_dir():
        return f"{place} is not a folder"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} is not writable"
    return None


def grant_access(folder: Path) -> None:
    """Make everything below a folder readable and removable, whatever modes a program has set.

    On SageMaker, root does both, and modes do not restrict root.
    """
    _permit(folder, stat.S_IRWXU)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            grant_access(Path(entry))
        elif entry.is_file(follow_symlinks=False):
            _permit(Path(entry), stat.S_IRUSR)


def write_json(path: Path, value: object) -> None:
    """Replace a file with a JSON document."""
    write_atomically(path, json.dumps(value, indent=2).encode())


def _permit(path: Path, needed: int) -> None:
    mode = path.stat().st_mode
    if mode & needed != needed:  # otherwise skip: it may be a link to another user's file
        path.chmod(mode | needed)


def read_json(path: Path) -> Any:
    """Return the value of a JSON document that `write_json` wrote."""
    return json.loads(path.read_text())
