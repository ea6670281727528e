"""The look of a report: charts as inline SVG, and the style sheet whose colours they have.

It is light or dark as the reader's system is, and fits phones and print.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.client.jobs import thinned
from launcher.client.show import Table, escaped, readable, rows_html, short_number

_WIDTH, _HEIGHT = 400, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 10, 24
#: The page has so many colours of lines; a line more begins with the first one again.
COLOURS = 8
#: Lines that a legend names; the others are drawn without a name.
_NAMED = 12
_ROW, _BAR = 26, 16
#: Colours of lines in light and dark, told apart also by most colour-blind readers (Okabe and Ito).
_PALETTE = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff9e4a"),
    ("#009e73", "#3ddbab"),
    ("#cc79a7", "#e8a5c8"),
    ("#8f6b00", "#f0e442"),
    ("#5b5bd6", "#a5a5ff"),
    ("#a0522d", "#d9a07c"),
    ("#555555", "#bbbbbb"),
)
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --faint: #616e7c; --line: #d9dee4; --page: #fff;
  --box: #f5f7fa; LIGHT }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --faint: #9aa5b1; --line: #3e4c59;
  --page: #15191e; --box: #1f262e; DARK } }
@media print { :root { color-scheme: light; --ink: #000; --faint: #444; --line: #bbb; --page: #fff;
  --box: #fff; LIGHT } section, figure, tr { break-inside: avoid } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1100px; padding: 16px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 4px; overflow-wrap: anywhere }
h2 { font-size: 1.1rem; margin: 28px 0 8px; border-bottom: 1px solid var(--line) }
p { margin: 4px 0; overflow-wrap: anywhere }
.faint { color: var(--faint) }
.charts { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)) }
.plan { display: grid; gap: 16px; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)) }
.plan > * { min-width: 0 }
.plan .wide { margin-top: 8px }
.plan svg { max-width: 480px; margin: 0 auto }
figure { margin: 0; padding: 10px; background: var(--box); border: 1px solid var(--line);
  border-radius: 6px }
figcaption { font-weight: 600; overflow-wrap: anywhere }
svg { display: block; width: 100%; height: auto; font-size: 12px; fill: var(--faint) }
polyline { fill: none; stroke-width: 1.6 }
.grid { stroke: var(--line); stroke-width: 1 }
.legend { display: flex; flex-wrap: wrap; gap: 2px 12px; font-size: .85rem }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 4px;
  vertical-align: -1px; border-radius: 2px }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .92rem }
th, td { padding: 3px 12px 3px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line) }
.answer { padding: 10px; background: var(--box); border: 1px solid var(--line);
  border-radius: 6px }
.answer ol { margin: 8px 0 0; padding-left: 24px }
"""


@dataclass(frozen=True, kw_only=True)
class ChartLine:
    """A line of a chart: its name, and finite values by time in seconds since the epoch."""

    name: str
    times: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class ChartBar:
    """A part of a row: from one time to another, or one amount to another."""

    name: str
    begin: float
    end: float


def line_chart(title: str, lines: Sequence[ChartLine], *, is_share: bool = False) -> str:
    """Return a chart of lines over the time since the first value; empty without values.

    is_share: values from 0 to 1, which are shown in percent.
    """
    shown = [line for line in lines if line.values]
    if not shown:
        return ""
    begin = min(line.times[0] for line in shown)
    end = max(line.times[-1] for line in shown)
    end = end if end > begin else begin + 1.0
    low = min(0.0, *(min(line.values) for line in shown))
    high = 1.0 if is_share else max(max(line.values) for line in shown)
    high = max(high, *(max(line.values) for line in shown))
    if high <= low:
        high = low + 1.0
    paths = (_path(line, number, (begin, end), (low, high)) for number, line in enumerate(shown))
    svg = "".join([*_axes((begin, end), (low, high), is_share=is_share), *paths])
    return (
        f"<figure><figcaption>{escaped(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{escaped(title)}</title>{svg}</svg>{_legend(shown)}</figure>"
    )


def _path(
    line: ChartLine, number: int, times: tuple[float, float], values: tuple[float, float]
) -> str:
    points = " ".join(
        f"{_x(line.times[index], times):.1f},{_y(line.values[index], values):.1f}"
        for index in thinned(line.values)
    )
    name = f"<title>{escaped(line.name)}</title>"
    colour = f"l{number % COLOURS}"
    if len(line.values) == 1:
        x, _, y = points.partition(",")
        return f'<circle class="{colour}" cx="{x}" cy="{y}" r="3">{name}</circle>'
    return f'<polyline class="{colour}" points="{points}">{name}</polyline>'


def _axes(
    times: tuple[float, float], values: tuple[float, float], *, is_share: bool
) -> Iterator[str]:
    low, high = values
    for value in (low, low / 2 + high / 2, high):
        y = _y(value, values)
        text = f"{value:.0%}" if is_share else short_number(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    begin, end = times
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
        text = readable(share * (end - begin))
        yield f'<text x="{x:.0f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{text}</text>'


def _x(time: float, times: tuple[float, float]) -> float:
    begin, end = times
    return _LEFT + (time - begin) / (end - begin) * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, values: tuple[float, float]) -> float:
    low, high = values
    span = high / 2 - low / 2 or 1.0  # halved, as a difference of two floats may overflow
    return _TOP + (high / 2 - value / 2) / span * (_HEIGHT - _TOP - _BOTTOM)


def _legend(lines: Sequence[ChartLine]) -> str:
    if len(lines) < 2 and not lines[0].name:
        return ""
    names = [
        f'<span><i class="b{number % COLOURS}"></i>{escaped(line.name)}</span>'
        for number, line in enumerate(lines[:_NAMED])
    ]
    more = f"<span>and {len(lines) - _NAMED} more</span>" if len(lines) > _NAMED else ""
    return f'<p class="legend">{"".join(names)}{more}</p>'


def bar_chart(title: str, rows: Sequence[tuple[str, Sequence[ChartBar]]], unit: str) -> str:
    """Return a chart of rows of bars on a common axis; empty without bars.

    unit: "time" for seconds that are shown as durations, or that of the amounts.
    """
    bars = [bar for _, row in rows for bar in row]
    if not bars:
        return ""
    begin, end = min(bar.begin for bar in bars), max(bar.end for bar in bars)
    span = (begin, end if end > begin else begin + 1.0)
    height = len(rows) * _ROW + _BOTTOM
    colours = {name: number for number, name in enumerate(dict.fromkeys(bar.name for bar in bars))}
    left = min(140, 16 + 7 * max(len(name) for name, _ in rows))
    parts = []
    for place, (name, row) in enumerate(rows):
        y = place * _ROW + (_ROW - _BAR) / 2
        parts.append(
            f'<text x="{left - 6}" y="{y + 12:.0f}" text-anchor="end">{escaped(name)}</text>'
        )
        for bar in row:
            first, last = (
                left + (at - span[0]) / (span[1] - span[0]) * (_WIDTH - left - _RIGHT)
                for at in (bar.begin, bar.end)
            )
            text = f"{bar.name}: {_amount(bar.end - bar.begin, unit)}"
            parts.append(
                f'<rect class="b{colours[bar.name] % COLOURS}" x="{first:.1f}" y="{y:.0f}" '
                f'width="{max(last - first, 1):.1f}" height="{_BAR}"><title>{escaped(text)}</title>'
                "</rect>"
            )
    for share, anchor in ((0.0, "start"), (1.0, "end")):
        x = left + share * (_WIDTH - left - _RIGHT)
        amount = _amount(share * (span[1] - span[0]), unit)
        parts.append(f'<text x="{x:.0f}" y="{height - 6}" text-anchor="{anchor}">{amount}</text>')
    names = "".join(
        f'<span><i class="b{number % COLOURS}"></i>{escaped(name)}</span>'
        for name, number in colours.items()
    )
    return (
        f"<figure><figcaption>{escaped(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img"><title>{escaped(title)}</title>'
        f'{"".join(parts)}</svg><p class="legend">{names}</p></figure>'
    )


def _amount(value: float, unit: str) -> str:
    return readable(value) if unit == "time" else f"{short_number(value)} {unit}"


def report_style() -> str:
    """Return the style sheet, with a class for each colour of lines and bars."""
    light, dark = (
        " ".join(f"--c{number}: {pair[theme]};" for number, pair in enumerate(_PALETTE))
        for theme in (0, 1)
    )
    colours = "".join(
        f".l{number} {{ stroke: var(--c{number}) }} circle.l{number} {{ fill: var(--c{number}) }} "
        f".b{number} {{ fill: var(--c{number}); background: var(--c{number}) }}\n"
        for number in range(COLOURS)
    )
    return _STYLE.replace("LIGHT", light).replace("DARK", dark) + colours


def wide_table(table: Table) -> str:
    """Return a table that scrolls on a narrow screen, by keyboard too."""
    attributes = f'class="wide" tabindex="0" role="region" aria-label="{escaped(table.title)}"'
    return f"<div {attributes}>{rows_html(table)}</div>"
