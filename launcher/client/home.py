"""The folder of what Launcher keeps on this machine, and the files that it writes for the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.errors import PlatformError

HOME_VARIABLE = "LAUNCHER_HOME"
#: Errors of a disk that is full or read-only, which any write may meet.
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def home_folder() -> Path:
    """Return $LAUNCHER_HOME, or ~/.launcher; it may not exist.

    Raises PlatformError for a user without a home folder.
    """
    folder = Path(os.environ.get(HOME_VARIABLE) or "~/.launcher")
    try:
        return folder.expanduser()
    except RuntimeError as error:
        raise PlatformError(
            f"{folder.parts[0]} of {folder} is the home folder of no known user: set "
            f"{HOME_VARIABLE} to the folder of local jobs"
        ) from error


def records_folder() -> Path:
    """Return the folder of the records of jobs elsewhere: below $LAUNCHER_HOME, or ~/.launcher."""
    return home_folder() / "records"


def disk_problem(error: OSError) -> str | None:
    """Return the words for a disk that cannot be written; None for any other error."""
    if error.errno not in _DISK_ERRORS:
        return None
    return (
        f"cannot write to {error.filename or 'the disk'}: {error.strerror}: free space there, or "
        f"choose another folder ({HOME_VARIABLE} is the folder of local jobs)"
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise PlatformError for an OSError in the block, which writes a file of the user's."""
    try:
        yield
    except OSError as error:
        raise PlatformError(f"{path} cannot be written: {error.strerror}") from error


def write_new(text: str, path: Path) -> None:
    """Write a text as a new file; raises PlatformError if that cannot be."""
    check_new(path)
    with writing(path), path.open("x", encoding="utf-8") as file:
        file.write(text)


def check_new(path: Path) -> None:
    """Raise PlatformError if a file cannot be made, before anything is measured for it."""
    if path.exists():
        raise PlatformError(f"{path} exists already; give another name, or remove it")
    if not path.parent.is_dir():
        raise PlatformError(f"{path} cannot be written: there is no folder {path.parent}")
