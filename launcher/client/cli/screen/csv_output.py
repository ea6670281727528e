"""CSV on stdout, the result of a verb with `-o csv`: one row for each item."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from launcher.client.cli.screen.terminal_output import echo


def csv_printer(columns: Sequence[str]) -> Callable[[Sequence[object]], None]:
    """Print the names of the columns; return what prints the cells of a row."""

    def write(cells: Sequence[object]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(map(_cell, cells))
        echo(text.getvalue())

    write(columns)
    return write


def print_csv(items: Iterable[Mapping[str, object]]) -> None:
    """Print items as rows, with a column for each value: "step.mean" for {"step": {"mean": 1}}.

    A list is JSON in its cell, and an unknown value an empty cell.
    """
    rows = [dict(_cells(each)) for each in items]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    write = csv_printer(columns)
    for row in rows:
        write([row.get(name) for name in columns])


def _cells(item: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in item.items():
        if isinstance(value, Mapping):
            yield from _cells(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%f%z}"
    return json.dumps(value) if isinstance(value, list | tuple) else value
