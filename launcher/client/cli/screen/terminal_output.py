"""Text, JSON and CSV that verbs print: text of others passes one door, and controls nothing."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone

import click

from launcher.shared import printable


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a text, in which control characters other than colours are made visible."""
    click.echo(printable(str(text)), err=err, nl=nl)


def print_json(value: object) -> None:
    """Print the result as JSON, with times in UTC and null for NaN and infinities."""
    click.echo(json.dumps(_finite(value), indent=2, default=_plain))


def print_json_line(value: object) -> None:
    """Print a value as JSON on one line, for a result of many lines."""
    click.echo(json.dumps(_finite(value), default=_plain))


def _finite(value: object) -> object:
    """Replace NaN and infinities, which a loss may be, by None."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    raise TypeError(f"cannot convert {type(value).__name__} to JSON")


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
