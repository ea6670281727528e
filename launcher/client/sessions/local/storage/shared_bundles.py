"""Content-addressed store of code bundles: jobs with the same code share one file by hard links.

bundles/<SHA-256>.tar.gz           by which the next job finds the content, below the root of jobs
storage/<job>/code/bundle.tar.gz   the job's own; elsewhere if the job has a code location
"""

from __future__ import annotations

import contextlib
import filecmp
import os
from dataclasses import dataclass
from pathlib import Path

from launcher.client.sessions.local.storage.file_uris import path_of, upload
from launcher.shared import replacing


@dataclass(frozen=True)
class SharedBundles:
    """The folder of the bundles that are kept for as long as a job has them."""

    folder: Path

    @classmethod
    def below(cls, root: Path) -> SharedBundles:
        """Return the bundles of the jobs below a root."""
        return cls(root / "bundles")

    def store(self, content: bytes | Path, uri: str, name: str) -> None:
        """Store content at `uri`, as a link to the bundle of that name if it has this content.

        Where links are impossible, each job has a file of its own. Raises PlatformError when the
        content cannot be written.
        """
        path, kept = path_of(uri), self.folder / name
        with contextlib.suppress(OSError):
            if _is_same(kept, content):
                path.parent.mkdir(parents=True, exist_ok=True)
                _link(kept, path)
                return
        upload(content, uri)
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _link(path, kept)
            path.chmod(0o400)  # who writes through one job's link would change all jobs' code

    def remove_unused(self) -> None:
        """Remove the bundles that no job has any more."""
        for kept in self.folder.glob("*"):
            with contextlib.suppress(OSError):
                # A job that links it at this moment has its content; the next one stores it anew.
                if kept.stat().st_nlink == 1:
                    kept.unlink()

    def inodes(self) -> frozenset[int]:
        """Return the inodes of the bundles."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            return frozenset(entry.inode() for entry in entries)
        return frozenset()


def _is_same(kept: Path, content: bytes | Path) -> bool:
    if isinstance(content, Path):
        return filecmp.cmp(kept, content, shallow=False)
    return kept.stat().st_size == len(content) and kept.read_bytes() == content


def _link(existing: Path, path: Path) -> None:
    """Make a path a hard link to an existing file, atomically. Raises OSError."""
    with replacing(path) as draft:
        os.link(existing, draft)
