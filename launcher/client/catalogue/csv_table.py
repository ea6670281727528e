"""Tables in CSV files, with comment lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path


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
