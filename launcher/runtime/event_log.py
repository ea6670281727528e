"""Event lines in the host's log, one line per event with its origin."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping

from launcher.shared import format_event


def emit(name: str, /, **fields: object) -> None:
    """Print one event line with this process's host, group and, if it has one, rank."""
    line = format_event(name, **_origin(os.environ), **fields)
    # Neither a full disk nor a script that changes its stderr may end a host.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # One write per line: lines of several processes on one pipe do not mix.
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _origin(environ: Mapping[str, str]) -> dict[str, object]:
    origin: dict[str, object] = {
        "host": environ.get("SM_CURRENT_HOST", "local"),
        "group": environ.get("SM_CURRENT_INSTANCE_GROUP", "local"),
    }
    if "RANK" in environ:
        origin["rank"] = int(environ["RANK"])
    return origin
