"""Text and tables that fit a terminal: no word is broken, and no line is wider than it is.

Without a width, for a pipe or a file, everything is whole. A terminal gets lines that break at
blanks; long names are shortened in the middle, and the columns that matter least are left out,
which is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from launcher.client.show.table import Note, Table
from launcher.shared import printable

#: The column at which the texts of notes begin.
NOTE_COLUMN = 9
_BETWEEN = "  "
#: Characters that a column keeps of a name, and of a text that may be cut.
_NAME, _CUT = 16, 24
#: A control sequence of colours, which takes no room, or a character.
_CHARACTER = re.compile(r"\x1b\[[0-9;]*m|.", re.DOTALL)
#: What stands in front of the text of a line: blanks, and labels with blanks behind them.
_LABELS = re.compile(r" *(?:\S+(?: \S+)* {2,})*")


class Style(Protocol):
    """The way a text is shown; `click.style` is one."""

    def __call__(self, text: str, /, *, fg: str | None = None, bold: bool | None = None) -> str:
        """Return the text with the marks of its colour."""
        ...


def plain_style(text: str, /, *, fg: str | None = None, bold: bool | None = None) -> str:
    """Return a text without colours."""
    return text


def text_columns(text: str) -> int:
    """Return how many columns a text takes on a terminal, on which its colours take none."""
    shown = printable(text, keep_styles=False)
    if shown.isascii():
        return len(shown)
    from rich.cells import cell_len  # rich is slow to import

    return cell_len(shown)


def shortened(text: str, width: int) -> str:
    """Return a text in at most `width` columns: a name without its middle, words without the last.

    >>> shortened("resnet-imagenet-4gpu-k3f9a2", 16)
    'resnet-i…-k3f9a2'
    >>> shortened("algo-2 (train): the disk is full", 24)
    'algo-2 (train): the …'
    """
    if text_columns(text) <= width:
        return text
    first, *others = text.split(" ")
    if not others:
        return _without_middle(text, width)
    if text_columns(first) > width - 2:
        return f"{_without_middle(first, width - 2)} …" if width > 4 else "…"
    kept = first
    for number, word in enumerate(others, start=1):
        room = width - text_columns(kept) - 3  # for the word, a blank and the ellipsis
        if text_columns(word) > room:
            if text_columns(word) > _NAME and room >= _NAME // 2:
                if number == len(others):
                    return f"{kept} {_without_middle(word, room + 2)}"
                kept += f" {_without_middle(word, room)}"
            break
        kept += f" {word}"
    return f"{kept.rstrip(' ')} …"


def _without_middle(name: str, width: int) -> str:
    parts = _CHARACTER.findall(name)
    head = _start(parts, width // 2)
    tail = _start(parts[::-1], width - 1 - width // 2)[::-1]
    return f"{''.join(head)}…{''.join(tail)}"


def _start(parts: Sequence[str], width: int) -> list[str]:
    """Return the first characters that take at most `width` columns, and all marks of colours."""
    kept, used = [], 0
    for part in parts:
        used += text_columns(part)
        if used <= width or len(part) > 1:
            kept.append(part)
    return kept


def fitted(text: str, width: int | None, column: int = 0) -> str:
    """Return a text whose long lines continue below where their own text begins.

    A line of one word and an address stay whole, to be copied. column: where the texts begin at
    least, for labels of any length.
    """
    if width is None:
        return text
    return "\n".join("\n".join(_broken(line, width, column)) for line in text.split("\n"))


def _broken(line: str, width: int, column: int) -> Iterator[str]:
    line = line.rstrip(" ")
    if text_columns(line) <= width or " " not in line.lstrip(" "):
        yield line
        return
    labels = _LABELS.match(printable(line, keep_styles=False))
    begin = len(labels[0]) if labels else 0
    indent = " " * max(min(begin, width // 2), min(column, width // 2))
    done = ""
    for blanks, word in re.findall(r"( *)([^ ]+)", line):
        if "://" not in word:
            word = shortened(word, width - len(indent))
        if not done:
            done = blanks[: width // 2] + word
        elif text_columns(done + blanks + word) <= width:
            done += blanks + word
        else:
            yield done
            done = indent[: max(0, width - text_columns(word))] + word
    yield done


def table_text(
    table: Table,
    *,
    width: int | None = None,
    note_column: int = NOTE_COLUMN,
    style: Style = plain_style,
) -> str:
    """Return the title, the rows, and the notes below an empty line.

    width: of the terminal; if the rows do not fit it without the columns that matter least, each
    gets a line for each of its cells.
    """
    lines, notes = [], list(table.notes)
    if table.rows:
        columns = list(_columns(table))
        kept = columns if width is None else _kept(columns, table.least, width)
        lines = list(_aligned(kept, table, style) if kept else _stacked(table, width or 0))
        gone = [each for each in columns if kept and each not in kept]
        if names := ", ".join(each.name for each in gone if not each.is_empty):
            notes.append(("", f"Not shown in {width} columns: {names}; a pipe has all."))
    below = [*([""] if lines else []), *note_lines(notes, note_column)] if notes else []
    shown = [*([table.title] if table.title else []), *lines]
    column = note_column if any(label for label, _ in notes) else 0
    return "\n".join([*shown, *(fitted(line, width, column) for line in below)])


def note_lines(notes: Iterable[Note], column: int = NOTE_COLUMN) -> list[str]:
    """Return each note as a line: its label, then its text at a column; at 0 without any label."""
    found = list(notes)
    width = column if any(label for label, _ in found) else 0
    return [f"{label:<{width}}{text}" for label, text in found]


@dataclass
class _Column:
    """A column of a table. least: the fewest characters; width: those that it gets."""

    name: str
    cells: list[str]
    is_right: bool
    least: int
    width: int

    @property
    def is_empty(self) -> bool:
        """True if nothing of it is known."""
        return {*self.cells[1:]} <= {"", "-"}


def _columns(table: Table) -> Iterator[_Column]:
    rows = [*([table.columns] if table.columns else []), *table.rows]
    names = table.columns or rows[0]
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        cells = [printable(cell, keep_styles=False) for cell in column]
        width = max(map(text_columns, cells))
        least = width
        if name in table.cut:
            least = min(width, _CUT)
        elif name not in table.numbers:
            names_kept = ((each, text_columns(each)) for each in cells)
            least = max(size if " " in each else min(size, _NAME) for each, size in names_kept)
        yield _Column(name, cells, name in table.numbers, least, width)


def _kept(columns: list[_Column], least: Sequence[str], width: int) -> list[_Column] | None:
    """Return the columns that fit a width, with their own; None if even the important ones do not.

    least: the names of those that may be left out, the first one first.
    """
    empty = [each.name for each in columns[1:] if each.is_empty]
    away, gone = [*empty, *least], list[str]()
    while (needed := _needed(columns, gone)) > width:
        if len(gone) == len(away):
            return None
        gone.append(away[len(gone)])
    for name in reversed(gone[:-1]):  # a narrow column that matters less may fit where none did
        without = [each for each in gone if each != name]
        if name not in empty and _needed(columns, without) <= width:
            gone = without
    kept, needed = [each for each in columns if each.name not in gone], _needed(columns, gone)
    wanted = {id(each): each.width for each in kept}
    for each in kept:
        each.width = each.least
    spare = width - needed
    while spare and (short := [each for each in kept if each.width < wanted[id(each)]]):
        for each in short[:spare]:
            each.width += 1
        spare -= min(spare, len(short))
    return kept


def _needed(columns: Sequence[_Column], gone: Sequence[str]) -> int:
    """Return the columns of a terminal that a table takes at least without some of its own."""
    sizes = [each.least for each in columns if each.name not in gone]
    return sum(sizes) + len(_BETWEEN) * (len(sizes) - 1)


def _aligned(columns: Sequence[_Column], table: Table, style: Style) -> Iterator[str]:
    for number in range(len(columns[0].cells)):
        cells = (_shown(each, each.cells[number], table, style) for each in columns)
        yield _BETWEEN.join(cells).rstrip(" ")


def _shown(column: _Column, cell: str, table: Table, style: Style) -> str:
    text = shortened(cell, column.width)
    blanks = " " * (column.width - text_columns(text))
    colour = table.colours.get(cell)
    text = style(text, fg=colour) if colour else text
    return blanks + text if column.is_right else text + blanks


def _stacked(table: Table, width: int) -> Iterator[str]:
    labels = min(width // 2, max(map(text_columns, table.columns[1:])))
    room = width - labels - 2 * len(_BETWEEN)
    for first, *others in table.rows:
        yield shortened(first, width)
        for name, cell in zip(table.columns[1:], others, strict=True):
            label = shortened(name, labels)
            for line in (fitted(cell, room) if " " in cell else shortened(cell, room)).splitlines():
                blanks = " " * (labels - text_columns(label) + len(_BETWEEN))
                yield f"{_BETWEEN}{label}{blanks}{line}"
                label = ""
