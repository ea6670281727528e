"""The style sheet of a report: light and dark as the reader's system is, for phones and print."""

from __future__ import annotations

from launcher.client.planning.reporting.report_chart import COLOURS
from launcher.client.show import Table, escaped, rows_html

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
