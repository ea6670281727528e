"""docs/data-promises.md, the table of what data engines promise, as tests read it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "data-promises.md"


@dataclass(frozen=True)
class PageRow:
    """The cells of a row, as they are written."""

    engine: str
    victims: str
    elements: str
    blocked: str
    outcome: str
    proof: str

    @property
    def seconds(self) -> float:
        """The most seconds for which a rank is blocked."""
        found = re.fullmatch(r"(\d+) s", self.blocked)
        return float(found[1]) if found else math.inf


def page_rows() -> list[PageRow]:
    """All rows; the first has the names of the columns."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [PageRow(*cells) for cells in (head, *rows)]


def row_of(engine: str, victims: str) -> PageRow:
    """The row of an engine that has no modes."""
    (row,) = (r for r in page_rows() if (r.engine, r.victims) == (f"`{engine}`", victims))
    return row
