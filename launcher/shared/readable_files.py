"""Files that a user names to be read: regular ones, and streams that the shell has opened."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

#: Paths of streams that are open already, as in `launcher run <(make_job)`.
_OPEN_STREAMS = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin", "/dev/null")


def open_readable(path: Path) -> BinaryIO:
    """Open a file to read it; raise OSError, also for one that might never end or be written.

    Such are named pipes, sockets and devices.
    """
    mode = path.stat().st_mode
    is_ordinary = stat.S_ISREG(mode) or stat.S_ISDIR(mode)  # open has words for a folder
    if not is_ordinary and not os.path.abspath(path).startswith(_OPEN_STREAMS):  # noqa: PTH100 (links stay)
        what = "it is a named pipe, a socket or a device, not a file"
        raise OSError(errno.EINVAL, what, str(path))
    return path.open("rb")
