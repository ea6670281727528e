"""Status writer of a job: the only writer of its description while the platform process lives."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from launcher.client.sessions.local.job import job_description
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.job.restarts import with_next_attempt

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from launcher.client.sessions.local.job.job_description import JobChanges


class StatusWriter:
    """The job's description; every change rewrites it in the job's folder.

    The thread that copies checkpoints changes it too.
    """

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._document = folder.status()
        self._lock = threading.Lock()

    def enter(self, state: job_description.JobState, **fields: Unpack[JobChanges]) -> None:
        """Move the job to a state, and set the `fields` that become known with it."""
        now = time.time()
        self._change(
            lambda document: {**job_description.with_state(document, state, now=now), **fields}
        )

    def update(self, **fields: Unpack[JobChanges]) -> None:
        """Set fields of the description."""
        self._change(lambda document: {**document, **fields})

    def set_message(self, message: str) -> None:
        """Set the progress message of the present state."""
        now = time.time()
        self._change(lambda document: job_description.with_message(document, message, now=now))

    def note(self, notes: Iterable[str]) -> None:
        """Add notes for the user to the description and to platform.log."""
        new = list(notes)
        for text in new:
            with contextlib.suppress(OSError):  # a full disk; the description has it too
                print(f"{self._folder.name}: {text}", file=sys.stderr, flush=True)
        if new:
            self._change(
                lambda document: {**document, "LocalNotes": [*document["LocalNotes"], *new]}
            )

    def close(self, ending: job_description.JobState, reason: str | None = None) -> None:
        """Close the job in its final state; nothing changes afterwards."""
        now = time.time()
        self._change(
            lambda document: with_next_attempt(
                self._folder, job_description.finished(document, ending, now=now, reason=reason)
            )
        )

    def _change(
        self,
        change: Callable[[job_description.StoredDescription], job_description.StoredDescription],
    ) -> None:
        """Change the description as it is, and write it."""
        with self._lock:
            self._document = change(self._document)
            self._folder.write_status(self._document)
