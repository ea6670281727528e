"""The overlay of a requirements file: a virtual environment on top of the hosts' Python.

overlays/<key>/lock       held (flock) by whoever builds it, and by pip, which may outlive that one;
                          then shared by the jobs that use it
               env/       the virtual environment: it sees that Python's packages too, and
                          pip installs only what those do not satisfy
               source/    the files that pip read
               complete   exists when the environment can be used; written last, touched at each use

An overlay that no job has used for 30 days is removed when another one is built.

The key is a hash of the interpreter, its installed packages, and the content of the requirements.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.client.sessions.local.host.host_python import HostPython
from launcher.errors import PlatformError

#: An overlay that has not been used for so long is removed.
UNUSED_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Overlay:
    """The folder of one overlay, which may not be built yet."""

    path: Path

    @property
    def environment(self) -> Path:
        """The folder of the virtual environment."""
        return self.path / "env"

    @property
    def source(self) -> Path:
        """The folder from which pip reads the requirements."""
        return self.path / "source"

    @property
    def programs(self) -> Path:
        """The folder of the programs, the interpreter among them."""
        return self.environment / "bin"

    @property
    def python(self) -> Path:
        """The interpreter that sees the installed packages."""
        return self.programs / "python"

    @property
    def is_complete(self) -> bool:
        """True once it can be used."""
        return self._marker.exists()

    @property
    def _marker(self) -> Path:
        return self.path / "complete"

    @contextlib.contextmanager
    def try_lock(self) -> Iterator[int | None]:
        """Hold the lock during the block; yield its descriptor, or None while another holds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = self._try_lock(fcntl.LOCK_EX)
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)  # pip may still have a copy, which keeps the lock

    def use(self) -> bool:
        """Keep a complete overlay until this process ends; return False if it is not complete."""
        if not self.is_complete or self._try_lock(fcntl.LOCK_SH) is None:
            return False
        with contextlib.suppress(FileNotFoundError):  # removed before it was locked
            os.utime(self._marker)
        return self.is_complete

    def _try_lock(self, kind: int) -> int | None:
        """Return a descriptor with a lock; None while another process prevents it."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # the folder has been removed
            return None
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), self._lock.stat()):
                return descriptor  # else it was removed meanwhile
        os.close(descriptor)
        return None

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    def remove_if_unused(self, before: float) -> bool:
        """Remove the overlay unless a job uses it, or has used it after a time (epoch seconds)."""
        if not self._is_older(before):
            return False
        with self.try_lock() as lock:
            if lock is None or (self.is_complete and not self._is_older(before)):
                return False
            self._marker.unlink(missing_ok=True)
            shutil.rmtree(self.path, ignore_errors=True)
        return True

    def _is_older(self, time: float) -> bool:
        """Return whether the last use, or the last change of an incomplete one, was before."""
        try:
            return (self._marker if self.is_complete else self.path).stat().st_mtime < time
        except FileNotFoundError:  # removed by another process
            return False

    def clear(self) -> None:
        """Remove what a build left that did not come to its end."""
        for folder in (self.environment, self.source):
            shutil.rmtree(folder, ignore_errors=True)

    def create(self, python: HostPython) -> None:
        """Create the environment without packages of its own, on top of a Python's.

        Raises PlatformError for a Python that cannot make one.
        """
        options = ["--symlinks", *(["--without-pip"] if python.has_pip else [])]
        command = [python.executable, "-I", "-m", "venv", *options, str(self.environment)]
        made = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        if made.returncode != 0:
            said = (made.stderr or made.stdout).strip().splitlines() or ["it printed nothing"]
            what = f"{python.executable} cannot make a virtual environment: {said[-1]}"
            raise PlatformError(f"{what}; requirements.txt is installed into one")
        major, minor, *_ = python.version
        own = self.environment / "lib" / f"python{major}.{minor}" / "site-packages"
        lines = [f"import site; site.addsitedir({folder!r})\n" for folder in python.site_folders]
        (own / "zz_running_python.pth").write_text("".join(lines), encoding="utf-8")

    def mark_complete(self) -> None:
        """Declare the environment usable."""
        draft = self.path / "complete-draft"
        draft.touch()
        draft.replace(self._marker)


def remove_unused(overlays: Path, before: float) -> int:
    """Remove the overlays that were last used before a time (epoch seconds); return how many."""
    return sum(
        Overlay(path).remove_if_unused(before) for path in overlays.iterdir() if path.is_dir()
    )
