"""The packaged prices, without those of the machine's user."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def packaged_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's own files, which is empty."""
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)
    return tmp_path
