"""Content of a page: cards, then sections of blocks, as values that become the page's JSON.

`assets/page.js` has one function for each kind of block. A cell of a table is a text or a mapping
with `text` and one of `share` (drawn as a bar), `href`, `log` (a host whose lines to show), `order`
(a number to sort by) and `tone` (a colour: good, bad, warn, go).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from launcher.client.show.table import Table
from launcher.client.show.value_text import json_text
from launcher.shared import printable

Cell = str | Mapping[str, Any]
Block = Mapping[str, Any]

#: Points of all charts of a page, so that its file stays below a few megabytes.
_POINTS = 120_000
#: Points that each line may have, however many lines there are.
_FEWEST_POINTS = 120

#: Values beyond are drawn here: the difference of two larger ones may be no number.
_HIGHEST = 1e300


@dataclass(frozen=True, kw_only=True)
class PageCard:
    """A figure at the top. note: faint, below it. wide: in a row of its own."""

    label: str
    value: str
    note: str = ""
    tone: str = ""
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class PageSection:
    """Blocks under a title, to which the page's navigation links."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class JobsPage:
    """A page.

    state: of the job, with the colour `tone`. footer: when and by what it was made. is_final: what
    it shows does not change any more.
    """

    title: str
    subtitle: str = ""
    state: str = ""
    tone: str = ""
    cards: Sequence[PageCard] = ()
    sections: Sequence[PageSection] = ()
    footer: str = ""
    is_final: bool = False

    def to_json(self, **live: Any) -> str:
        """Return the page as JSON. live: what a served page has besides: refresh, source, back."""
        sections = [each for each in self.sections if each.blocks]
        shown = asdict(self) | {"sections": list(map(asdict, sections))} | live
        return json_text(_printable(shown), indent=None)


@dataclass(frozen=True, kw_only=True)
class PageLine:
    """A line of a chart: values by x, as seconds after the job's beginning."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class PageBar:
    """A part of a row of bars, from one amount to another."""

    name: str
    begin: float
    end: float


def text_block(text: str, tone: str = "") -> Block:
    """Return a paragraph; what stands between backticks is code."""
    return {"kind": "text", "text": text, "tone": tone}


def list_block(title: str, items: Sequence[str]) -> Block:
    """Return numbered sentences."""
    return {"kind": "list", "title": title, "items": list(items)}


def facts_block(rows: Sequence[tuple[str, str]]) -> Block:
    """Return labels and their texts."""
    return {"kind": "facts", "rows": [list(row) for row in rows]}


def table_block(table: Table, rows: Sequence[Sequence[Cell]], *, pick: str = "") -> Block:
    """Return a table whose rows a reader can sort.

    table: its title, columns and numbers. pick: rows can be ticked, and the names in their first
    cells are appended to this address, with commas.
    """
    return {
        "kind": "table",
        "title": table.title,
        "columns": list(table.columns),
        "numbers": list(table.numbers),
        "rows": [list(row) for row in rows],
        "pick": pick,
    }


def chart_block(
    title: str,
    lines: Sequence[PageLine],
    *,
    unit: str = "plain",
    marks: Sequence[Mapping[str, Any]] = (),
    wide: bool = False,
) -> Block:
    """Return a chart of lines over the time of the job.

    unit: plain, share, seconds, bytes or dollars. marks: moments with a text, as `time` in seconds.
    """
    series = [{"name": each.name, "x": _rounded(each.x, 2), "y": _short(each.y)} for each in lines]
    return {
        "kind": "chart",
        "title": title,
        "unit": unit,
        "series": series,
        "marks": list(marks),
        "wide": wide,
    }


def bars_block(
    title: str, rows: Sequence[tuple[str, Sequence[PageBar]]], unit: str, *, wide: bool = False
) -> Block:
    """Return rows of bars on one axis. unit: time for durations, else as of a chart."""
    return {
        "kind": "bars",
        "title": title,
        "unit": unit,
        "rows": [{"name": name, "bars": list(map(asdict, bars))} for name, bars in rows],
        "wide": wide,
    }


@dataclass(frozen=True, kw_only=True)
class DotSeries:
    """Dots of one kind: a name for each, and its place. line: they are joined by a line."""

    name: str
    dots: Sequence[tuple[str, float, float]]
    line: bool = False


def scatter_block(title: str, series: Sequence[DotSeries], *, x_unit: str, unit: str) -> Block:
    """Return a chart of dots on logarithmic axes. x_unit, unit: as for a chart, or hours."""
    shown = []
    for each in series:
        dots = sorted(each.dots, key=lambda dot: dot[1])
        shown.append(
            {
                "name": each.name,
                "names": [name for name, _, _ in dots],
                "x": _short([x for _, x, _ in dots]),
                "y": _short([y for _, _, y in dots]),
                "line": each.line,
            }
        )
    units = {"x_unit": x_unit, "unit": unit}
    return {"kind": "scatter", "title": title, "series": shown, "wide": True, **units}


def most_points(lines: int) -> int:
    """Return the number of points that each of so many lines of a page may have."""
    return max(_FEWEST_POINTS, _POINTS // max(1, lines))


def thin(values: Sequence[float], most: int) -> Sequence[int]:
    """Return the indices of the first, the last, and the extreme values of each part."""
    count = len(values)
    if count <= most:
        return range(count)
    found = {0, count - 1}
    parts = most // 2
    for part in range(parts):
        inside = range(part * count // parts, (part + 1) * count // parts)
        found |= {min(inside, key=values.__getitem__), max(inside, key=values.__getitem__)}
    return sorted(found)


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{min(_HIGHEST, max(-_HIGHEST, value)):.5g}") for value in values]


def _rounded(values: Sequence[float], digits: int) -> list[float]:
    return [round(value, digits) for value in values]


def _printable(value: Any) -> Any:
    """Return plain values without control characters, which a page cannot show."""
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(each) for each in value]
    if isinstance(value, str):
        return "\n".join(printable(each, keep_styles=False) for each in value.split("\n"))
    return value
