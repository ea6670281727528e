"""The outsider's package `attic`, on the path as if it were installed."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def attic(monkeypatch):
    """Install the package for one test, with an attic of its own."""
    for name in ("attic", "attic.session"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "attic"))
