"""The files of `launcher plan types --update`, in the user's Launcher home."""

from __future__ import annotations

from pathlib import Path

from launcher.client.home import home_folder


def updated_prices(region: str) -> Path:
    """Return the path of a region's updated prices; it may not exist."""
    return _folder() / "prices" / f"{region}.csv"


def updated_price_files() -> tuple[Path, ...]:
    """Return the files with updated prices that are there, one for each region, by name."""
    try:
        return tuple(sorted((_folder() / "prices").glob("*.csv")))
    except PermissionError:  # newer versions of Python find no file there, either
        return ()


def updated_instances() -> Path:
    """Return the path of the updated instance types; it may not exist."""
    return _folder() / "instances.csv"


def _folder() -> Path:
    return home_folder() / "catalogue"
