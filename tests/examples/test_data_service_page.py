"""Every promise of docs/data-service.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "data-service.md").read_text()
PROMISES = re.findall(r"^(\d+)\. \*\*", PAGE, re.MULTILINE)
_SECTION = PAGE.partition("## Which tests hold each promise")[2].partition("\n## ")[0]
PROOFS = dict(re.findall(r"^- \*\*(\w+)\*\* (.*?)(?=^- |\Z)", _SECTION, re.MULTILINE | re.DOTALL))


def test_promises_are_numbered_in_order_and_each_has_its_tests() -> None:
    assert [int(number) for number in PROMISES] == list(range(1, len(PROMISES) + 1))
    assert len(PROMISES) > 10
    assert list(PROOFS) == [*PROMISES, "Iterable"]


@pytest.mark.parametrize("number", PROOFS)
def test_the_tests_of_a_promise_exist(number: str) -> None:
    for proof in re.split(r";\s+", PROOFS[number].strip()):
        found = re.fullmatch(r"\[(\w+\.py)\]\((\S+)\):\s+(`\w+`(?:,\s+`\w+`)*)", proof)
        assert found, proof
        name, link, tests = found.groups()
        path = DOCS / link
        assert path.name == name
        defined = re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", tests)) <= set(defined), name
