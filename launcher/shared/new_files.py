"""Files that the programs of a host have made, such as those that go with it when it ends."""

from __future__ import annotations

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
    for path in islice(_files(folder, left_out), _LOOKED_AT):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_size and status.st_mtime >= since:
            yield path, status.st_size


def _files(folder: Path, left_out: Collection[Path]) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        place = Path(parent)
        folders[:] = [each for each in folders if _is_shown(place / each, left_out)]
        yield from (place / each for each in names if _is_shown(place / each, left_out))


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
