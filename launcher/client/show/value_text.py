"""Plain values as text: numbers and durations in few characters, JSON, and rows of CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def short_number(value: float) -> str:
    """Format a number with three digits, and from ten thousand on with a prefix.

    >>> [short_number(value) for value in (0.000123, 0.25, 1234.0, 45_600.0, -2.5e9)]
    ['0.000123', '0.25', '1234', '45.6k', '-2.5G']
    """
    size = abs(value)
    if math.isfinite(size) and size < 1e15:
        for least, prefix in _PREFIXES:
            if size >= least:
                scale = 1e3 if prefix == "k" else least
                return f"{value / scale:.3g}{prefix}"
        if size >= 1000:
            return f"{value:.0f}"
    return f"{value:.3g}"


def readable(seconds: float) -> str:
    """Format a number of seconds for a reader.

    >>> [readable(seconds) for seconds in (0.4, 42, 200, 10_021)]
    ['0s', '42s', '3m20s', '2h47m']
    """
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minute:02d}m"
    return f"{minutes}m{second:02d}s" if minutes else f"{second}s"


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
