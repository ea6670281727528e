"""Each row of docs/data-promises.md names a test that exists, and says what it promises."""

from __future__ import annotations

import dataclasses
import re

import pytest
from promise_page import PAGE, PageRow, page_rows

HEAD, *ROWS = page_rows()
NAMES = [f"{row.engine}, {row.victims}" for row in ROWS]


def test_there_is_one_table_of_all_engines() -> None:
    columns = ("engine and mode", "what dies", "elements", "blocked at most", "outcome", "test")
    assert dataclasses.astuple(HEAD) == columns
    assert len(set(NAMES)) == len(NAMES)
    engines = {name for row in ROWS for name in re.findall(r"`(\w+)`", row.engine)}
    assert engines == {"launcher", "tf", "auto", "file", "data", "dynamic", "ray"}


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_test_of_a_row_exists(row: PageRow) -> None:
    assert row.outcome
    found = re.fullmatch(r"\[(\w+\.py)\]\((\S+)\): `(\w+)`", row.proof)
    assert found, row.proof
    name, link, test = found.groups()
    path = PAGE.parent / link
    assert path.name == name
    assert re.search(rf"^def {test}\(", path.read_text(), re.MULTILINE), row.proof
