"""Events of the processes of a host: one line each, with its origin, never among printed lines."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping

from launcher.shared import EVENTS_VARIABLE, format_event, format_text, own_mask

_LOG = logging.getLogger("launcher")


def emit(name: str, /, **fields: object) -> None:
    """Append one event, with this process's host, group and, if it has one, rank.

    It goes to the host's file of events, and to stderr where there is none: outside a job, and in
    the first process of a host, whose stderr is the log itself.
    """
    line = own_mask().text(format_event(name, **_origin(os.environ), **fields)) + "\n"
    if not _append(os.environ.get(EVENTS_VARIABLE), line):
        _print(line)


def log_event(name: str, level: int = logging.INFO, /, **fields: object) -> None:
    """Append one event in a job; elsewhere log it, so that a script or notebook stays quiet.

    Python's logging prints warnings by default, and the rest where the script asks for it:
    `logging.basicConfig(level=logging.INFO)`.
    """
    if EVENTS_VARIABLE in os.environ:
        emit(name, **fields)
    elif _LOG.isEnabledFor(level):
        _LOG.log(level, "%s", fields.get("why") or format_event(name, **fields))


def emit_text(name: str, text: str, /, **fields: object) -> None:
    """Append one event with a text, such as a traceback, in lines of its own.

    Where the file of events takes nothing more, a process prints the text as its own.
    """
    path = os.environ.get(EVENTS_VARIABLE)
    text = own_mask().text(text)
    event = own_mask().text(format_event(name, **_origin(os.environ), **fields))
    lines = f"{event}\n{format_text(text)}\n"
    if not _append(path, lines):
        _print(lines if path is None else text)


def _print(text: str) -> None:
    # Neither a full disk nor a script that changes its stderr may end a host.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # One write: lines of several processes on one pipe do not mix.
        sys.stderr.write(text)
        sys.stderr.flush()


def _append(path: str | None, line: str) -> bool:
    """Append to the file, if there is one; return whether the whole line is in it.

    It is opened by its name each time: torchrun, mpirun and subprocess close the descriptors that
    a process has inherited. One write in append mode is whole, and outlives the process.
    """
    if path is None:
        return False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        content = line.encode(errors="backslashreplace")
        return os.write(descriptor, content) == len(content)
    except OSError:  # a full disk
        return False
    finally:
        os.close(descriptor)


def _origin(environ: Mapping[str, str]) -> dict[str, object]:
    origin: dict[str, object] = {
        "host": environ.get("SM_CURRENT_HOST", "local"),
        "group": environ.get("SM_CURRENT_INSTANCE_GROUP", "local"),
    }
    if "RANK" in environ:
        origin["rank"] = int(environ["RANK"])
    return origin
