"""Access to files and folders: what prevents writing, and modes that let our user read and remove.

Programs of a job set modes as they like, and users choose folders that may not be writable.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.errors import PlatformError


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


@contextmanager
def ignore_read_only() -> Iterator[None]:
    """Go on after the block where the file system is read-only."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EROFS:
            raise


def nearest_existing(path: Path) -> Path:
    """Return the path, or its nearest ancestor that exists."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))


def write_obstacle(folder: Path) -> str | None:
    """Return why a folder, which may not exist yet, is not writable; None if it is."""
    nearest = nearest_existing(folder)
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} is not writable"
    return None


def add_owner_permissions(folder: Path) -> None:
    """Make everything below a folder readable and removable, whatever modes a program has set.

    On SageMaker, root does both, and modes do not restrict root.
    """
    _permit(folder, stat.S_IRWXU)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            add_owner_permissions(Path(entry))
        elif entry.is_file(follow_symlinks=False):
            _permit(Path(entry), stat.S_IRUSR)


def discard_folder(folder: Path) -> None:
    """Remove a folder of a program as far as possible; what cannot be removed stays."""
    with contextlib.suppress(RecursionError):  # folders within folders without end
        add_owner_permissions(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _permit(path: Path, needed: int) -> None:
    mode = path.stat().st_mode
    if mode & needed != needed:  # otherwise skip: it may be a link to another user's file
        path.chmod(mode | needed)
