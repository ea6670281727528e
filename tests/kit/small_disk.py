"""A file system of its own that is soon full."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount one in a folder, such as one of "16m"; skip the test where that is not allowed."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "launcher-small", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("root, who may mount a small file system")
    try:
        yield place
    finally:
        # Lazily, so that a test which fails leaves no mount.
        subprocess.run(["umount", "-l", str(place)], check=True)
