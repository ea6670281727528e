"""Files that the programs of a host have made, such as those that go with it when it ends."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

from launcher.shared.paths import MlPaths

#: Files of a folder to look at, and files to name.
_LOOKED_AT, _NAMED = 100_000, 5
#: Folders and files that Python, its tools and libraries make, and can make again.
_CACHES = re.compile(r"\.|__pycache__$|.+\.egg-info$|tmp[a-z0-9_]{8}$|(torch\w*|pymp)[-_]|hs?perf")
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "bytes"))


def new_files(
    folder: Path, left_out: Collection[Path] = (), since: float = 0.0
) -> Iterator[tuple[Path, int]]:
    """Yield each file of a folder that has changed since a time, with its size; caches are not.

    left_out: files and folders. Empty files are not yielded.
    """
    for path, status in islice(_files(folder, left_out), _LOOKED_AT):
        if stat.S_ISREG(status.st_mode) and status.st_size and status.st_mtime >= since:
            yield path, status.st_size


def _files(folder: Path, left_out: Collection[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield what is no folder; folders may be nested deeper than Python may call itself."""
    folders = [folder]
    while folders:
        # The path may be too long, and programs remove what they have made.
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                path = Path(entry.path)
                if not _is_shown(path, left_out):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    yield path, entry.stat(follow_symlinks=False)


def _is_shown(path: Path, left_out: Collection[Path]) -> bool:
    return not _CACHES.match(path.name) and path not in left_out


def kept_elsewhere(paths: MlPaths, checkpoints: Path | None) -> frozenset[Path]:
    """Return what is left out below /opt/ml: what is kept, and what no program of the user's makes.

    checkpoints: the folder of checkpoints, if they are kept.
    """
    own = (paths.input, paths.library, paths.failure, paths.output_intermediate)
    kept = (paths.model, paths.output_data, checkpoints)
    return frozenset(each for each in (*own, *kept) if each is not None)


def size_text(size: int) -> str:
    """Format a size as 1.5 MB, or 12 bytes."""
    unit, name = next(each for each in _UNITS if size >= each[0] or each[0] == 1)
    return f"{size / unit:.3g} {name}"


def listed(names: Collection[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(list(names)[:_NAMED])}{more}"
