"""Removal of local jobs that have ended, with all that is stored for them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Set
from pathlib import Path

from launcher.client.sessions.base import CHECKPOINTS_FOLDER
from launcher.client.sessions.local.job.job_description import is_terminal
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.job.orphan_cleanup import reconciled_status
from launcher.client.sessions.local.storage.file_access import (
    add_owner_permissions,
    translate_write_errors,
)
from launcher.client.sessions.local.storage.shared_bundles import SharedBundles
from launcher.errors import JobNotFound, PlatformError


def remove_job(folder: JobFolder, root: Path) -> int:
    """Remove a job's folder, its code and its results below `root`; return their size.

    A file that jobs share counts by its share. Checkpoints and results that it wrote elsewhere
    stay. Raises PlatformError for a job that has not ended.
    """
    try:
        with _alone(folder):
            return _remove(folder, root)
    except RecursionError as error:
        raise PlatformError(
            f"cannot remove {folder.path}: its programs have nested folders too deeply for "
            f"Python: rm -rf {folder.path}"
        ) from error


@contextlib.contextmanager
def _alone(folder: JobFolder) -> Iterator[None]:
    """Let no other process remove the job in the block; raise JobNotFound if one has done so."""
    handle = None
    try:
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(handle, fcntl.LOCK_EX)
        if not folder.path.is_dir():
            raise JobNotFound(f"job {folder.name} has been removed by another process")
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _remove(folder: JobFolder, root: Path) -> int:
    if not _has_ended(folder):
        raise PlatformError(f"job {folder.name} has not ended: `launcher stop {folder.name}` first")
    freed = stored_bytes(folder, root)
    # The job's own files last, so that a removal that fails or is killed can be repeated.
    inside = [path for path in folder.path.iterdir() if path.is_dir() and not path.is_symlink()]
    for path in (*_folders(folder, root)[:-1], *inside, folder.path):
        with translate_write_errors(path):
            add_owner_permissions(path)
            shutil.rmtree(path)
    SharedBundles.below(root).remove_unused()
    return freed


def _has_ended(folder: JobFolder) -> bool:
    """Return whether a job has ended; one whose description is lost, whether no process has it."""
    try:
        return is_terminal(reconciled_status(folder))
    except PlatformError:
        if not folder.lock.exists():
            return True
        lock = folder.take_lock()
        if lock is not None:
            os.close(lock)
        return lock is not None


def stored_bytes(folder: JobFolder, root: Path) -> int:
    """Return the size of what `remove_job` removes."""
    kept = SharedBundles.below(root).inodes()
    return sum(size for path in _folders(folder, root) for size in _file_sizes(path, kept))


def _folders(folder: JobFolder, root: Path) -> list[Path]:
    """Return the folders of a job's code and results, and of the job itself, which is the last."""
    stored = root / "storage" / folder.name
    parts = (stored / "code", stored / "output") if folder.name == CHECKPOINTS_FOLDER else (stored,)
    return [path for path in (*parts, folder.path) if path.is_dir()]


def _file_sizes(folder: Path, kept: Set[int]) -> Iterator[int]:
    """Yield the size of each file; of one with several names, its share.

    What a running job removes meanwhile is left out.
    kept: inodes of files with one more name, which counts for no job.
    """
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        names = status.st_nlink - (status.st_ino in kept)
                        yield status.st_size // max(names, 1)
