"""Removal of local jobs that have ended, with all that is stored for them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from launcher.client.sessions.local.file_access import grant_access, translate_write_errors
from launcher.client.sessions.local.job_description import is_terminal
from launcher.client.sessions.local.job_folder import JobFolder
from launcher.client.sessions.local.orphan_cleanup import reconciled_status
from launcher.errors import PlatformError


def remove_job(folder: JobFolder, root: Path) -> int:
    """Remove a job's folder, its code and its results below `root`; return the bytes freed.

    Checkpoints and results that it wrote elsewhere stay. Raises PlatformError for a job that has
    not ended.
    """
    if not is_terminal(reconciled_status(folder)):
        raise PlatformError(f"job {folder.name} has not ended: `launcher stop {folder.name}` first")
    folders = [path for path in (root / "storage" / folder.name, folder.path) if path.is_dir()]
    try:
        freed = sum(size for path in folders for size in _file_sizes(path))
        for path in folders:  # the job itself last, so that a removal that fails can be repeated
            with translate_write_errors(path):
                grant_access(path)
                shutil.rmtree(path)
    except RecursionError as error:
        raise PlatformError(
            f"cannot remove {folder.path}: its programs have nested folders too deeply for "
            f"Python: rm -rf {folder.path}"
        ) from error
    return freed


def _file_sizes(folder: Path) -> Iterator[int]:
    """Yield the size of each file; of one with several names, its share."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            status = path.stat()
            yield status.st_size // status.st_nlink
