"""SECURITY.md: each "cannot" of its threat model has a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    line.split("|")[1:-1]
    for line in (ROOT / "SECURITY.md").read_text().partition('each "cannot"')[2].splitlines()
    if line.startswith("| ") and not line.startswith("| position")
]


def test_each_cannot_has_its_tests() -> None:
    assert len(ROWS) >= 10
    for position, _, cannot, tests in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)`", tests)
        assert named or cannot.strip() == "-", position
        assert all((ROOT / path).is_file() for path in named), position
