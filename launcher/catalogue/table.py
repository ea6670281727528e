"""A CSV file with a head, and lines that start with # for the reader."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping


def read_table(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Each row with the number of its line; a cell that is missing is empty."""
    numbered = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    rows = csv.DictReader((line for _, line in numbered), restval="")
    for (number, _), row in zip(numbered[1:], rows, strict=False):
        yield number, {name.strip(): cell.strip() for name, cell in row.items() if name}
