"""A recommendation as HTML: the answer, a picture of price over time, the table and the notes.

The picture is SVG of a few kilobytes, without a library: it has dots, two axes and a line. Each dot
has its numbers as a title, which browsers show and screen readers read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.planning.plans.recommendation_layout import cluster_table
from launcher.client.planning.plans.scatter import (
    ClusterPoint,
    ClusterScatter,
    ScatterArea,
    recommendation_scatter,
)
from launcher.client.show import escaped, table_html

if TYPE_CHECKING:
    from launcher.client.planning.plans.recommendation import Recommendation

_AREA = ScatterArea(
    width=720,
    height=380,
    left=64,
    right=20,
    top=40,
    bottom=48,
    grid='stroke="currentColor" stroke-opacity="0.2"',
)
#: Colours that differ in lightness too; text and axes take the page's own colour.
_BEST, _PARETO, _OTHER = "#d9480f", "#1c7ed6", "#868e96"
_LIMIT = 10
_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap; }
tr + tr { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
svg { max-width: 100%; height: auto; }
"""


def recommendation_page(recommendation: Recommendation) -> str:
    """Return a page of its own, which loads nothing from anywhere."""
    title = "Clusters compared"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{recommendation_html(recommendation)}\n</main>\n</body>\n</html>\n"
    )


def recommendation_html(recommendation: Recommendation, limit: int = _LIMIT) -> str:
    """Return the recommendation as a part of a page, in the page's own colours."""
    answer, reason = escaped(recommendation.answer), escaped(recommendation.reason)
    parts = [f"<p><strong>{answer}</strong><br>{reason}</p>"]
    if scatter := recommendation_scatter(recommendation):
        parts.append(_picture(scatter))
    parts.append(table_html(cluster_table(recommendation, limit)))
    return "\n".join(parts)


def _picture(scatter: ClusterScatter) -> str:
    words = f"Dollars over hours of {scatter.what}, of {len(scatter.points)} clusters"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_AREA.width}" '
            f'height="{_AREA.height}" viewBox="{_AREA.view_box}" font-size="13" '
            'font-family="system-ui, sans-serif" fill="currentColor">',
            f"<title>{escaped(words)}</title>",
            *_legend(),
            *_AREA.axes(scatter, f"hours of {scatter.what}"),
            *_line(scatter),
            *(_dot(scatter, point) for point in scatter.in_drawing_order),
            "</svg>",
        ]
    )


def _legend() -> Iterator[str]:
    names = ((_BEST, "recommended"), (_PARETO, "none is cheaper and faster"), (_OTHER, "others"))
    x = _AREA.left
    for colour, name in names:
        yield f'<circle cx="{x}" cy="16" r="6" fill="{colour}"/>'
        yield f'<text x="{x + 12}" y="20">{name}</text>'
        x += 7 * len(name) + 40


def _line(scatter: ClusterScatter) -> Iterator[str]:
    best = scatter.pareto
    if len(best) > 1:
        places = (_AREA.place(scatter, point) for point in best)
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        yield f'<path d="M{path}" fill="none" stroke="{_PARETO}" stroke-width="1.5"/>'


def _dot(scatter: ClusterScatter, point: ClusterPoint) -> str:
    colour = _BEST if point.is_best else _PARETO if point.is_pareto else _OTHER
    radius = 8 if point.is_best else 5
    words = f"{point.name}: {point.hours:.3g} hours, ${point.dollars:,.2f}"
    x, y = _AREA.place(scatter, point)
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}">'
        f"<title>{escaped(words)}</title></circle>"
    )
