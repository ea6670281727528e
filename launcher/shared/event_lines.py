"""Event lines: what Launcher itself prints into a job's logs, for people and programs."""

from __future__ import annotations

import json
import re
from typing import Any

_FIELD = r'[a-z_][a-z0-9_]*=(?:"(?:[^"\\]|\\.)*"|[^\s"]\S*)'
_EVENT = re.compile(rf"^launcher: (?P<name>[a-z_]+)(?P<fields>(?: {_FIELD})*)\s*$")
_BARE = re.compile(r"[A-Za-z_][\w.:/+-]*")
_JSON_WORDS = frozenset({"true", "false", "null", "NaN", "Infinity"})


def format_event(name: str, **fields: object) -> str:
    """Format one log line that people and programs can read.

    >>> format_event("worker_ready", host="algo-1", worker=0, seconds=0.25)
    'launcher: worker_ready host=algo-1 worker=0 seconds=0.25'
    """
    return " ".join(
        ["launcher:", name] + [f"{key}={_field(value)}" for key, value in fields.items()]
    )


def parse_event(line: str) -> tuple[str, dict[str, Any]] | None:
    """Return the name and fields of an event line, or None if the line is not one."""
    match = _EVENT.match(line)
    if match is None:
        return None
    pairs = (pair.split("=", 1) for pair in re.findall(_FIELD, match["fields"]))
    return match["name"], {key: _value(text) for key, text in pairs}


def _field(value: object) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value not in _JSON_WORDS:
        return value
    text = json.dumps(value, separators=(",", ":"))
    # Blanks may appear in quoted strings only, so that a reader can split the line.
    return text if isinstance(value, str) else text.replace(" ", "\\u0020")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
