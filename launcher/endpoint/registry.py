"""What the endpoint knows of a job and the local platform does not: its region and its tags.

<root>/endpoint/<job>.json, written before the job is created; without a job it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from launcher.sessions.local.files import read_json, write_json

#: Of a job (CreateTrainingJob, TrainingJobName); a log stream may be called anything.
_NAME = re.compile(r"[a-zA-Z0-9-]{1,63}")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """region: where the job was created, by its request's signature; tags: by their keys."""

    region: str
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Registry:
    """The entries of all jobs, one file each."""

    folder: Path

    def write(self, name: str, entry: Entry) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file(name), asdict(entry))

    def read(self, name: str) -> Entry | None:
        """A job's entry; None for a job that was not created through the endpoint."""
        try:
            return Entry(**read_json(self._file(name))) if _NAME.fullmatch(name) else None
        except FileNotFoundError:
            return None

    def names(self, region: str) -> list[str]:
        """The jobs of a region."""
        if not self.folder.is_dir():
            return []
        names = [file.stem for file in self.folder.glob("*.json")]
        return [name for name in names if (entry := self.read(name)) and entry.region == region]

    def remove(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"
