"""Search for job files near a folder, quickly enough for shell completion."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_SUFFIXES = (".yaml", ".yml")
#: How many levels to search, and how many entries at most.
_DEPTH = 3
_MOST_ENTRIES = 2000


def job_files_below(start: Path) -> Iterator[Path]:
    """Yield job files, nearest first, skipping hidden folders and Python environments."""
    level, seen = [start], 0
    for _ in range(_DEPTH):
        deeper: list[Path] = []
        for folder in level:
            for entry in _entries(folder):
                seen += 1
                if seen > _MOST_ENTRIES:
                    return
                if entry.suffix in _SUFFIXES:
                    yield entry
                elif _is_searched(entry):
                    deeper.append(entry)
        level = deeper


def _is_searched(entry: Path) -> bool:
    """Return whether an entry is a folder that may be read, and no Python environment."""
    try:
        return entry.is_dir() and not (entry / "pyvenv.cfg").exists()
    except OSError:
        return False


def _entries(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)  # noqa: PTH208  half the time of iterdir
    except OSError:
        return []
    return [folder / name for name in sorted(names) if not name.startswith(".")]
