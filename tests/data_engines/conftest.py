"""The made-up engine of this room, installed."""

from __future__ import annotations

from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "counting_package"


@pytest.fixture
def installed(tmp_path: Path) -> list[str]:
    """Install the package; return the folders that PYTHONPATH needs."""
    metadata = tmp_path / "packages" / "counting-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[launcher.data_engines]\ncounting = counting_engine:CountingEngine\n"
    )
    return [str(metadata.parent), str(PACKAGE)]
