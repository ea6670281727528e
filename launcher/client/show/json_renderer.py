"""Plain values as JSON, and as rows of CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone


def json_text(value: object, indent: int | None = 2) -> str:
    """Return a value as JSON, with times in UTC and null for NaN and infinities.

    indent: None for one line.
    """
    return json.dumps(_finite(value), indent=indent, default=_plain)


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


def csv_lines(items: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield a head, and items as rows with a column for each value.

    {"step": {"mean": 1}} has the column "step.mean". A list is JSON in its cell, and an unknown
    value an empty cell.
    """
    rows = [dict(_cells(each)) for each in items]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    yield csv_line(columns)
    for row in rows:
        yield csv_line([row.get(name) for name in columns])


def csv_line(cells: Sequence[object]) -> str:
    """Return cells as a line of CSV, without its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(map(_cell, cells))
    return text.getvalue()


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
