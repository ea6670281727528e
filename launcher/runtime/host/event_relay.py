"""Copies the events of a host's processes to its log, from the file that they append to."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from launcher.runtime.host.output import write_log
from launcher.shared import EVENTS_VARIABLE, MlPaths, own_mask

_PERIOD_SECONDS = 0.1


@contextlib.contextmanager
def events_of_children(paths: MlPaths) -> Iterator[dict[str, str]]:
    """Take the events of this process's children; yield the variables that they need for that.

    A platform that reads the file itself has set the variable. Elsewhere each event becomes a line
    of the log, at the latest when the block ends.
    """
    if EVENTS_VARIABLE in os.environ:
        yield {}
        return
    path = paths.events
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    except OSError:  # a full disk; children then print their events
        yield {}
        return
    relay = EventRelay(path)
    relay.start()
    try:
        yield {EVENTS_VARIABLE: str(path)}
    finally:
        relay.close()


class EventRelay:
    """Copies whole lines from a growing file to the log, until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Start copying."""
        self._thread.start()

    def close(self) -> None:
        """Copy what is left, and end."""
        self._is_closing.set()
        self._thread.join()
        self._copy()

    def _run(self) -> None:
        while not self._is_closing.wait(_PERIOD_SECONDS):
            self._copy()

    def _copy(self) -> None:
        with contextlib.suppress(OSError):  # a script has removed the file
            if self._path.stat().st_size == self._position:
                return
            with self._path.open("rb") as file:
                file.seek(self._position)
                content = file.read()
            lines = content[: content.rfind(b"\n") + 1]
            self._position += len(lines)
            write_log(own_mask().output(lines))
