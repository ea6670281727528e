"""A copy of the digits example for each test, with its images."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from digits_example import DIGITS, WITNESS, Example


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image files, written once for all tests."""
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("digits")
    shutil.copy(DIGITS / "prepare.py", folder)
    subprocess.run([sys.executable, str(folder / "prepare.py")], check=True, capture_output=True)
    return folder / "data"


@pytest.fixture
def example(tmp_path: Path, images: Path) -> Example:
    pytest.importorskip("torch")
    folder = tmp_path / "digits"
    shutil.copytree(DIGITS, folder, ignore=shutil.ignore_patterns("data", "__pycache__"))
    shutil.copytree(images, folder / "data")
    (folder / "witness.py").write_text(WITNESS)
    return Example(folder, tmp_path / "home")
