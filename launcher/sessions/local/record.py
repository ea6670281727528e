"""What the platform process writes down about its job; it is the only writer while it lives."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.sessions.local import description
from launcher.sessions.local.folder import JobFolder


class Record:
    """The job's description, replaced in its folder at every change."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._document = folder.status()

    def enter(self, state: description.State, **fields: Any) -> None:
        """The job enters a state; `fields` become known with it."""
        self._write(description.entered(self._document, state, now=time.time()) | fields)

    def update(self, **fields: Any) -> None:
        """Something became known."""
        self._write({**self._document, **fields})

    def tell(self, message: str) -> None:
        """How far the present state is."""
        self._write(description.told(self._document, message, now=time.time()))

    def note(self, notes: Iterable[str]) -> None:
        """Something the user should know: in the description, and in platform.log."""
        new = list(notes)
        for text in new:
            with contextlib.suppress(OSError):  # a full disk; the description has it as well
                print(f"{self._folder.name}: {text}", file=sys.stderr, flush=True)
        if new:
            self.update(LocalNotes=[*self._document["LocalNotes"], *new])

    def close(self, ending: description.State, reason: str | None = None) -> None:
        """The job has ended; nothing changes any more."""
        self._write(description.closed(self._document, ending, now=time.time(), reason=reason))

    def _write(self, document: Mapping[str, Any]) -> None:
        self._document = dict(document)
        self._folder.write_status(document)
