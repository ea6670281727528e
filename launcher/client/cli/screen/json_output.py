"""JSON on stdout, the result of a verb with `-o json`."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone

import click


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
