"""Files that other processes read or write: replaced whole, and open to our user."""

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


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """PlatformError for what keeps a block from writing to a place of the caller's choice."""
    try:
        yield
    except OSError as error:
        raise PlatformError(
            f"{path} cannot be written: {error.strerror}: make room there, or choose another place "
            "(LAUNCHER_HOME says where jobs are kept)"
        ) from error


def nearest_there(path: Path) -> Path:
    """The path, or what is there of the way to it."""
    return next(place for place in (path, *path.parents) if os.path.lexists(place))


def why_unwritable(folder: Path) -> str | None:
    """What keeps us from writing to a folder that may not be there yet; None: nothing."""
    place = nearest_there(folder)
    if not place.is_dir():
        return f"{place} is not a folder"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written to"
    return None


def open_up(folder: Path) -> None:
    """Let our user read and remove everything below a folder, whatever modes a program has set.

    On SageMaker root does both, whom modes do not stop.
    """
    _permit(folder, stat.S_IRWXU)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            open_up(Path(entry))
        elif entry.is_file(follow_symlinks=False):
            _permit(Path(entry), stat.S_IRUSR)


def write_json(path: Path, value: object) -> None:
    """Replace a file by a JSON document."""
    write_whole(path, json.dumps(value, indent=2).encode())


def _permit(path: Path, needed: int) -> None:
    mode = path.stat().st_mode
    if mode & needed != needed:  # else it may be a link to a file of another user
        path.chmod(mode | needed)


def read_json(path: Path) -> Any:
    """The value of a JSON document that `write_json` wrote."""
    return json.loads(path.read_text())
