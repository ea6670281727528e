"""The outsider's package `attic`, on the path as if it were installed."""

from pathlib import Path

import pytest


@pytest.fixture
def attic(monkeypatch):
    """Install the package for one test."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "attic"))
