"""Status writer of a job: the only writer of its description while the platform process lives."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from launcher.client.sessions.local import job_description
from launcher.client.sessions.local.job_folder import JobFolder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from launcher.client.sessions.local.job_description import JobChanges


class StatusWriter:
    """The job's description; every change rewrites it in the job's folder."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._document = folder.status()

    def enter(self, state: job_description.JobState, **fields: Unpack[JobChanges]) -> None:
        """Move the job to a state, and set the `fields` that become known with it."""
        self._write(
            {**job_description.with_state(self._document, state, now=time.time()), **fields}
        )

    def update(self, **fields: Unpack[JobChanges]) -> None:
        """Set fields of the description."""
        self._write({**self._document, **fields})

    def set_message(self, message: str) -> None:
        """Set the progress message of the present state."""
        self._write(job_description.with_message(self._document, message, now=time.time()))

    def note(self, notes: Iterable[str]) -> None:
        """Add notes for the user to the description and to platform.log."""
        new = list(notes)
        for text in new:
            with contextlib.suppress(OSError):  # a full disk; the description has it too
                print(f"{self._folder.name}: {text}", file=sys.stderr, flush=True)
        if new:
            self.update(LocalNotes=[*self._document["LocalNotes"], *new])

    def close(self, ending: job_description.JobState, reason: str | None = None) -> None:
        """Close the job in its final state; nothing changes afterwards."""
        self._write(
            job_description.finished(self._document, ending, now=time.time(), reason=reason)
        )

    def _write(self, document: job_description.StoredDescription) -> None:
        self._document = document
        self._folder.write_status(document)
