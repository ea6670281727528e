"""Each row of docs/data-promises.md names a test that exists, and says what it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_LINES = [line for line in (DOCS / "data-promises.md").read_text().splitlines() if line[:1] == "|"]
HEAD, _, *ROWS = ([cell.strip() for cell in line.strip("|").split("|")] for line in _LINES)
NAMES = [f"{row[0]}, {row[1]}" for row in ROWS]


def test_there_is_one_table_of_all_engines() -> None:
    columns = ["engine and mode", "what dies", "elements", "blocked at most", "outcome", "test"]
    assert columns == HEAD
    assert len(set(NAMES)) == len(NAMES)
    engines = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}
    assert engines == {"launcher", "tf", "auto", "file", "data", "dynamic", "ray"}


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_test_of_a_row_exists(row: list[str]) -> None:
    *_, outcome, proof = row
    assert outcome
    found = re.fullmatch(r"\[(\w+\.py)\]\((\S+)\): `(\w+)`", proof)
    assert found, proof
    name, link, test = found.groups()
    path = DOCS / link
    assert path.name == name
    assert re.search(rf"^def {test}\(", path.read_text(), re.MULTILINE), proof
