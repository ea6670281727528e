"""Event lines: what Launcher itself writes into a job's logs, for people and programs.

A line of a log that begins with one of the marks is Launcher's: a host's first process, the only
writer of its log, puts a blank before a program's own line that begins so.
"""

from __future__ import annotations

import json
import re
import string
from typing import Any

#: Begins the lines of text that belong to the event before them, such as a traceback.
TEXT_MARK = "launcher| "
#: Raised by reading the fields of an event that another version wrote, or of a damaged line.
FIELD_ERRORS = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)
_KEY = r"[a-z_][a-z0-9_]*"
_TEXT = r'"(?:[^"\\]|\\.)*"|[^\s"]\S*'
_EVENT = re.compile(rf"^launcher: ([a-z_]+)((?: {_KEY}=(?:{_TEXT}))*)\s*$")
_FIELD = re.compile(rf"({_KEY})=({_TEXT})")
_BARE = re.compile(r"[A-Za-z_][\w.:/+-]*")
#: Digits of an integer: 128 bits have 39.
_LONGEST_INTEGER = 40
_JSON_WORDS = frozenset({"true", "false", "null", "NaN", "Infinity"})
_LETTERS = frozenset(string.ascii_letters)
#: A number that is read without json, as JSON has it and not a long one.
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,17})(\.[0-9]+)?")


def format_event(name: str, **fields: object) -> str:
    """Format one log line that people and programs can read.

    >>> format_event("worker_ready", host="algo-1", worker=0, seconds=0.25)
    'launcher: worker_ready host=algo-1 worker=0 seconds=0.25'
    """
    return " ".join(
        ["launcher:", name] + [f"{key}={_field(value)}" for key, value in fields.items()]
    )


def format_text(text: str) -> str:
    """Format the text of an event, such as a traceback, as lines that follow it.

    >>> format_text("Traceback:")
    'launcher| Traceback:'
    """
    return "\n".join(TEXT_MARK + line for line in text.splitlines())


def parse_event(line: str) -> tuple[str, dict[str, Any]] | None:
    """Return the name and fields of an event line, or None if the line is not one."""
    match = _EVENT.match(line)
    if match is None:
        return None
    return match[1], {key: _value(text) for key, text in _FIELD.findall(match[2])}


def _field(value: object) -> str:
    if isinstance(value, str) and _BARE.fullmatch(value) and value not in _JSON_WORDS:
        return value
    text = json.dumps(value, separators=(",", ":"))
    # Blanks may appear in quoted strings only, so that a reader can split the line.
    return text if isinstance(value, str) else text.replace(" ", "\\u0020")


def _integer(digits: str) -> int:
    """Return a number that can be printed again, which Python refuses for thousands of digits."""
    if len(digits) > _LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _value(text: str) -> Any:
    # Most fields are words or numbers, and a report reads millions of them: json takes longer.
    if text[0] in _LETTERS and text not in _JSON_WORDS:
        return text
    if number := _NUMBER.fullmatch(text):
        return int(text) if number[1] is None else float(text)
    try:
        return json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError):  # RecursionError: thousands of brackets
        return text
