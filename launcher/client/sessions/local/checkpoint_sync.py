"""The checkpoint folders of the hosts, kept in sync with CheckpointConfig's S3Uri.

As on SageMaker, every host has the folder, and it is filled before the host starts. While the job
runs, the files of all hosts are copied to the one location; if several hosts write the same name,
the last writer wins. Nothing is ever deleted there. A file is copied once it has not changed for
a second, or once its host has ended.
"""

from __future__ import annotations

import contextlib
import shutil
import stat
import threading
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from types import TracebackType

from launcher.client.sessions.local.host_folder import HostFolder
from launcher.client.sessions.local.object_store import (
    ObjectStore,
    S3Failed,
    copy_into,
    files_below,
)
from launcher.shared import DEFAULT_ML_ROOT

_PERIOD_SECONDS = 1.0
#: Longest chain of links to follow; the same limit as Linux (path_resolution(7)).
_MAX_LINKS = 40


class _Changed(Exception):
    """Raised when a file was written to while it was copied; a later round copies it again."""


class CheckpointSync:
    """Restores the hosts' checkpoint folders, and copies what they write there while a block runs.

    problem: why the last round of copies failed; None when it did not.
    outside: the names of links that lead out of their host; they are not copied.
    """

    def __init__(self, store: ObjectStore, path_in_host: str, trees: Iterable[HostFolder]) -> None:
        self.problem: str | None = None
        self.outside: set[str] = set()
        self._store = store
        self._path_in_host = PurePosixPath(path_in_host)
        self._trees = {_folder(tree, self._path_in_host): tree for tree in trees}
        self._folders = list(self._trees)
        self._stored: dict[Path, tuple[int, ...]] = {}
        self._seen: dict[Path, tuple[int, ...]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def restore(self) -> None:
        """Copy the stored checkpoints into every host's folder. Raises OSError or S3Failed."""
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
        first, *others = self._folders
        self._store.fetch_all(first)
        for path in list(files_below(first)):
            name = path.relative_to(first)
            for copy in (path, *(copy_into(folder, name, path) for folder in others)):
                self._stored[copy] = _version(copy)

    def __enter__(self) -> CheckpointSync:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Copy the last files, after the hosts have ended."""
        self._stop.set()
        self._thread.join()
        self._copy_changed(is_final=True)

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD_SECONDS):
            self._copy_changed()

    def _copy_changed(self, *, is_final: bool = False) -> None:
        """Copy new and changed files, if unchanged since the last round (or `is_final`)."""
        problem = None
        for folder in self._folders:
            try:
                for path in files_below(folder):
                    # Wait once for an unreachable S3, not once per file.
                    wait_for_s3 = is_final and problem is None
                    problem = self._try_copy(path, folder, is_final, wait_for_s3) or problem
            except RecursionError:  # noqa: PERF203 (other hosts' checkpoints are copied)
                problem = f"cannot write checkpoints to {self._store.uri}: folders too deep"
        self.problem = problem

    def _try_copy(self, path: Path, folder: Path, is_final: bool, wait_for_s3: bool) -> str | None:
        """Copy one file and return its error, so that one bad file does not lose the others."""
        try:
            self._copy_file(path, folder, is_final, wait_for_s3)
        except FileNotFoundError:  # removed or replaced meanwhile, or a dangling link
            return None
        except (OSError, S3Failed) as error:
            return f"cannot write checkpoints to {self._store.uri}: {error}"
        return None

    def _copy_file(self, path: Path, folder: Path, is_final: bool, wait_for_s3: bool) -> None:
        source = self._resolve_links(path, folder)
        version = _version(source)
        if not self._trees[folder].has(source):
            self.outside.add(path.relative_to(folder).as_posix())
            return
        is_quiet = is_final or self._seen.get(path) == version
        self._seen[path] = version
        if version == self._stored.get(path) or not is_quiet:
            return
        name = path.relative_to(folder).as_posix()
        with contextlib.suppress(_Changed):
            with self._store.writing(name, wait_for_s3=wait_for_s3) as draft:
                shutil.copy2(source, draft)
                if _version(source) != version:
                    raise _Changed
            self._stored[path] = version

    def _resolve_links(self, path: Path, folder: Path) -> Path:
        """Resolve the links in a path, mapping the host's own checkpoint path to this machine."""
        for _ in range(_MAX_LINKS):
            if not path.is_symlink():
                return path
            target = path.parent / path.readlink()
            is_own = target.is_relative_to(self._path_in_host)
            path = folder / target.relative_to(self._path_in_host) if is_own else target
        raise FileNotFoundError(path)  # a loop of links


def _folder(tree: HostFolder, path_in_host: PurePosixPath) -> Path:
    """Return the path on this machine of a host's checkpoint folder."""
    return tree.ml.root / path_in_host.relative_to(DEFAULT_ML_ROOT)


def _version(path: Path) -> tuple[int, ...]:
    """Return a value that changes with the file; raise FileNotFoundError if it is not a file."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(path)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
