"""Files that a verb writes anew: one that exists is never replaced."""

from __future__ import annotations

from pathlib import Path

from launcher.client.home import writing
from launcher.errors import PlatformError


def write_new(text: str, path: Path) -> None:
    """Write a text as a new file; raises PlatformError if that cannot be."""
    check_new(path)
    with writing(path), path.open("x", encoding="utf-8") as file:
        file.write(text)


def check_new(path: Path) -> None:
    """Raise PlatformError if a file cannot be made, before anything is measured for it."""
    if path.exists():
        raise PlatformError(f"{path} exists already; give another name, or remove it")
    if not path.parent.is_dir():
        raise PlatformError(f"{path} cannot be written: there is no folder {path.parent}")
