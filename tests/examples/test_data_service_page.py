"""Every promise of docs/data-service.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "data-service.md").read_text()
PROMISES = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^\*\*Iterable|\Z)", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("number", "text"), PROMISES, ids=[number for number, _ in PROMISES])
def test_each_promise_names_its_tests(number: str, text: str) -> None:
    named = re.findall(r"`((?:tests/)?[\w/]+\.py)`", text)
    assert named, f"promise {number} names no test"
    for name in named:
        path = REPOSITORY / (name if "/" in name else f"tests/job_world/{name}")
        assert re.search(r"^def test_", path.read_text(), re.MULTILINE), name


def test_promises_are_numbered_in_order() -> None:
    assert [int(number) for number, _ in PROMISES] == list(range(1, len(PROMISES) + 1))
    assert len(PROMISES) > 10
