"""Files of the catalogue: packaged tables, and those of `launcher plan types --update`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
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


def packaged_table(name: str) -> str:
    """Return the text of a table beside this file."""
    # importlib.resources would import tempfile and all compressors
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def read_table(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each row of a CSV file with its line number; skip comment lines, which start with #.

    Raises ValueError for a text that is no CSV.
    """
    numbered = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    rows = csv.DictReader((line for _, line in numbered), restval="")
    try:
        for (number, _), row in zip(numbered[1:], rows, strict=False):
            yield number, {name.strip(): cell.strip() for name, cell in row.items() if name}
    except csv.Error as error:
        raise ValueError(f"it is no CSV: {error}") from error
