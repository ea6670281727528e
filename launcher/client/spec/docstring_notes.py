"""Notes on the fields of a class: the `name: text` paragraphs of its docstring."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

#: The start of a paragraph about one or more fields, as "subnets, role: ...".
_START = re.compile(r"(?P<names>[a-z][a-z0-9_]*(?:, [a-z][a-z0-9_]*)*): (?P<text>.*)")


def field_notes(declared: Any) -> dict[str, str]:
    """Return the notes on a dataclass's fields, by field; a field may have none."""
    known = {part.name for part in dataclasses.fields(declared)}
    notes: dict[str, str] = {}
    current: list[str] = []
    for line in inspect.cleandoc(declared.__doc__ or "").splitlines():
        start = _START.match(line)
        if start and set(names := start["names"].split(", ")) <= known:
            current = names
            notes.update(dict.fromkeys(names, start["text"]))
        elif line.startswith(" ") and current:
            notes.update({name: f"{notes[name]} {line.strip()}" for name in current})
        else:
            current = []
    return notes
