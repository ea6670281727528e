"""Reading of CSV files with a header row and comment lines that start with #."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping


def read_table(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each row with its line number; a missing cell is empty."""
    numbered = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    rows = csv.DictReader((line for _, line in numbered), restval="")
    for (number, _), row in zip(numbered[1:], rows, strict=False):
        yield number, {name.strip(): cell.strip() for name, cell in row.items() if name}
