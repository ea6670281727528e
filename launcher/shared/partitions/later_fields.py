"""Fields that version 1 of the partition file got after files of it were written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

#: Metadata of such a field. It is left out where it has its default, so that a file which is read
#: and written again stays as it was.
LATER = {"later": True}


def written(value: Any) -> Any:
    """Return a value of a partition file as dictionaries, lists and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dict(_fields(value))
    if isinstance(value, (list, tuple)):
        return [written(each) for each in value]
    return value


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for each in dataclasses.fields(value):
        found = getattr(value, each.name)
        if not (each.metadata.get("later") and found == each.default):
            yield each.name, written(found)
