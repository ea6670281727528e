"""Root folder of all local jobs, ~/.launcher or $LAUNCHER_HOME: create, find and list them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.home import HOME_VARIABLE
from launcher.client.sessions.local.job.job_folder import JobFolder, Settings
from launcher.client.sessions.local.storage.file_access import translate_write_errors
from launcher.errors import JobNotFound, PlatformError
from launcher.shared import did_you_mean

if TYPE_CHECKING:
    from launcher.client.sessions.local.job.job_description import StoredDescription
    from launcher.shared import TrainingJobRequest


@dataclass(frozen=True)
class JobRoot:
    """Folders of the jobs below one root; a job has all its files from the start, or no folder."""

    root: Path

    @property
    def _jobs(self) -> Path:
        return self.root / "jobs"

    def create(
        self, request: TrainingJobRequest, settings: Settings, status: StoredDescription
    ) -> tuple[JobFolder, int]:
        """Create a new job's folder; return it and the descriptor that holds its lock.

        Raises PlatformError when the name was ever used, or the folder cannot be written.
        """
        name = request["TrainingJobName"]
        with translate_write_errors(self._jobs):
            draft = self._draft(request, settings, status)
        lock = draft.take_lock()
        assert lock is not None, "no other process has this folder yet"
        folder = JobFolder(self._jobs / name)
        try:
            draft.path.rename(folder.path)
        except OSError as error:
            os.close(lock)
            shutil.rmtree(draft.path)
            if not folder.path.exists():
                raise
            raise PlatformError(
                f"the job name {name!r} was already used (see {folder.path}): use another name"
            ) from error
        return folder, lock

    def _draft(
        self, request: TrainingJobRequest, settings: Settings, status: StoredDescription
    ) -> JobFolder:
        """Create a new job's folder under a temporary name."""
        import tempfile  # those who only read jobs need not wait for it

        self._jobs.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A root inside a user's source folder must not be bundled with their jobs.
        (self.root / ".gitignore").write_text("*\n", encoding="utf-8")
        draft = JobFolder(Path(tempfile.mkdtemp(dir=self._jobs, prefix=".new-")))
        try:
            draft.write(request, settings, status)
        except BaseException:
            shutil.rmtree(draft.path)
            raise
        return draft

    def find(self, name: str) -> JobFolder:
        """Return the folder of a job; raise JobNotFound when no job has that name."""
        if not self.has(name):
            near = did_you_mean(name, self._names())
            hint = f"did you mean {near!r}?" if near else "`launcher list` lists all jobs"
            raise JobNotFound(f"there is no local job {name!r} below {self._jobs}: {hint}")
        return JobFolder(self._jobs / name)

    def all(self) -> list[JobFolder]:
        """Return the folders of all jobs."""
        return [JobFolder(self._jobs / name) for name in self._names()]

    def newest_names(self) -> list[str]:
        """Return the names of all jobs, newest first, without reading their documents."""
        return [job.name for job in sorted(self.all(), key=lambda job: -job.created)]

    def has(self, name: str) -> bool:
        """Return whether a job has a name."""
        if not name or Path(name).name != name or name.startswith("."):
            return False
        return os.path.isdir(self._jobs / name)  # noqa: PTH112 (Path's raises for a name too long)

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._jobs) as entries:
                return sorted(
                    each.name for each in entries if each.name[0] != "." and each.is_dir()
                )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise PlatformError(
                f"cannot read the jobs in {self._jobs}: {error.strerror}: become the user "
                f"whose jobs they are, or give {HOME_VARIABLE} another folder"
            ) from error
