"""The sources of the catalogue's figures, by the keys that its tables use."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from launcher.client.catalogue.csv_table import packaged_table, read_table


@dataclass(frozen=True, kw_only=True)
class FigureSource:
    """The origin of a figure.

    as_of: the date of the source, "2026-10-27", "2026-10" or "2026"; None if it has none.
    """

    key: str
    as_of: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.text} ({self.as_of or 'undated'})"


def figure_source(key: str) -> FigureSource:
    """Return the source with a key, or the key and a date of its own as "key@2026-11-26".

    A key that is not in sources.csv describes itself.
    """
    name, _, day = key.partition("@")
    found = _sources().get(name) or FigureSource(key=name, as_of=None, text=name)
    return replace(found, as_of=day) if day else found


@functools.cache
def _sources() -> Mapping[str, FigureSource]:
    return {
        row["key"]: FigureSource(key=row["key"], as_of=row["as_of"] or None, text=row["text"])
        for _, row in read_table(packaged_table("sources.csv"))
    }
