"""Times of the lines in a local job's logs: beside each file, a record of its size over time.

Hosts append to their logs and events themselves, so the platform samples the sizes of the files
while it watches the hosts. A line was written, at the latest, when its file was first seen to be
that long.
"""

from __future__ import annotations

import bisect
import contextlib
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import overload

from launcher.client.sessions.local.job.job_folder import EVENTS_SUFFIX, LOG_SUFFIX

#: Seconds since the epoch, and the size of the log in bytes at that time.
_RECORD = struct.Struct("<dQ")
#: Suffix of the record of each kind of file.
_SUFFIXES = {LOG_SUFFIX: ".times", EVENTS_SUFFIX: ".events-times"}
_PERIOD_SECONDS = 0.1


class LineTimeRecorder:
    """Records the sizes of a folder's logs, at most ten times a second."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._sizes: dict[Path, int] = {}
        self._next = 0.0
        self._last = 0.0

    def sample(self, *, is_final: bool = False) -> None:
        """Record the logs that have grown since the last call."""
        if time.monotonic() < self._next and not is_final:
            return
        self._next = time.monotonic() + _PERIOD_SECONDS
        self._last = max(self._last, time.time())  # the clock may be set back
        for suffix in _SUFFIXES:
            for log in self._logs.glob(f"*{suffix}"):
                self._sample(log)

    def _sample(self, log: Path) -> None:
        size = log.stat().st_size
        if size > self._sizes.get(log, 0):
            # The disk may be full: a later sample has these lines, too.
            with contextlib.suppress(OSError), _record_of(log).open("ab", buffering=0) as file:
                file.write(_RECORD.pack(self._last, size))
                self._sizes[log] = size


class LineTimes:
    """Looks up the time at which a part of a log was written."""

    def __init__(self, log: Path) -> None:
        self._log = log
        times = _record_of(log)
        self._records = _Records(times.read_bytes() if times.exists() else b"")
        #: The last answer, and the range of bytes (after, up to) for which it is valid: most lines
        #: have the same answer as the line before.
        self._answer, self._after, self._until = 0.0, 0, 0
        #: The record after that of the answer, which has that of the line after it.
        self._next = 0

    @property
    def known_bytes(self) -> int:
        """The size of the log at the last sample."""
        return self._records[-1][1] if self._records else 0

    def written_at(self, end: int) -> float:
        """Return when the log's first `end` bytes had been written, in seconds since the epoch."""
        if self._after < end <= self._until:
            return self._answer
        if self._until < end and self._next < len(self._records):
            moment, size = self._records[self._next]
            if end <= size:
                self._answer, self._after, self._until = moment, self._until, size
                self._next += 1
                return moment
        return self._look_up(end)

    def _look_up(self, end: int) -> float:
        """Return when `end` bytes had been written, of which the answer before does not tell."""
        index = bisect.bisect_left(self._records, end, key=lambda record: record[1])
        if index < len(self._records):
            self._after = self._records[index - 1][1] if index else 0
            self._answer, self._until = self._records[index]
            self._next = index + 1
            return self._answer
        # Printed after the last sample of a platform process that was killed.
        last = self._records[-1][0] if self._records else 0.0
        return max(last, self._log.stat().st_mtime)


def _record_of(log: Path) -> Path:
    return log.with_suffix(_SUFFIXES[log.suffix])


class _Records(Sequence[tuple[float, int]]):
    """The file's records, unpacked one at a time; an incomplete last one is left out."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._count = len(content) // _RECORD.size

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> tuple[float, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[float, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[float, int] | Sequence[tuple[float, int]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        position = index + self._count if index < 0 else index
        if not 0 <= position < self._count:
            raise IndexError(index)
        moment, size = _RECORD.unpack_from(self._content, position * _RECORD.size)
        return moment, size
