"""The value that is shown: rows of cells under their columns, and notes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

#: A label and a text; the label is empty where the text continues the one above.
Note = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells, and the notes below them; either may be missing.

    numbers: the columns whose cells stand on the right.
    """

    title: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: Collection[str] = ()
    notes: Sequence[Note] = ()


class Markup(str):
    """A cell that is HTML already, such as a picture."""


def labelled(label: str, texts: Iterable[str]) -> Iterator[Note]:
    """Yield notes of one label, which only the first of them shows."""
    for number, text in enumerate(texts):
        yield "" if number else label, text
