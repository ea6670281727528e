"""Region and tags of each job, which the local platform does not store.

Files: <root>/endpoint/<job>.json, written before the job is created; without a job they mean
nothing.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from launcher.client.sessions import read_json, write_json

#: A job's name (CreateTrainingJob, TrainingJobName); a log stream may have any name.
_NAME = re.compile(r"[a-zA-Z0-9-]{1,63}")


@dataclass(frozen=True, kw_only=True)
class JobEntry:
    """Region and tags of a job.

    region: where the job was created, from its request's signature; tags: by key.
    """

    region: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobRegistry:
    """The entries of all jobs, one file each."""

    folder: Path
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def write(self, name: str, entry: JobEntry) -> None:
        """Store a job's entry."""
        with self._lock:
            self._write(name, entry)

    def change_tags(
        self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> JobEntry | None:
        """Change a job's tags and return its new entry; changes of several threads add up.

        Returns None, and changes nothing, if there is no such job.
        """
        with self._lock:
            if (entry := self.read(name)) is not None:
                entry = JobEntry(region=entry.region, tags=change(entry.tags))
                self._write(name, entry)
            return entry

    def _write(self, name: str, entry: JobEntry) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file(name), asdict(entry))

    def read(self, name: str) -> JobEntry | None:
        """Return a job's entry; None for a job that was not created through the endpoint."""
        try:
            return JobEntry(**read_json(self._file(name))) if _NAME.fullmatch(name) else None
        except FileNotFoundError:
            return None

    def names(self, region: str) -> list[str]:
        """Return the names of a region's jobs."""
        if not self.folder.is_dir():
            return []
        names = [file.stem for file in self.folder.glob("*.json")]
        return [name for name in names if (entry := self.read(name)) and entry.region == region]

    def remove(self, name: str) -> None:
        """Delete a job's entry, if there is one."""
        with self._lock:
            self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"
