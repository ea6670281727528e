"""A copy of the digits example for each test, with its images."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from digits_example import DIGITS, WITNESS, Example
from terminal import terminal

__all__ = ["terminal"]

#: Images of the smaller copy; the example has 1,797.
FEW = 600


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image files, written once for all tests."""
    _need("sklearn")
    folder = tmp_path_factory.mktemp("digits")
    shutil.copy(DIGITS / "prepare.py", folder)
    subprocess.run([sys.executable, str(folder / "prepare.py")], check=True, capture_output=True)
    return folder / "data"


@pytest.fixture(scope="session")
def few_images(images: Path) -> Path:
    """A third of them, for tests that compare runs and do not ask what was learned."""
    folder = images.parent / "few"
    return shutil.copytree(images, folder, ignore=_others)


def _others(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".png") and int(Path(name).stem) >= FEW]


@pytest.fixture
def whole_example(tmp_path: Path, images: Path) -> Example:
    return _copied(tmp_path, images)


@pytest.fixture
def example(tmp_path: Path, few_images: Path) -> Example:
    return _copied(tmp_path, few_images)


@pytest.fixture(scope="module")
def shared_example(tmp_path_factory: pytest.TempPathFactory, few_images: Path) -> Example:
    """A copy for what several tests compare their runs with."""
    return _copied(tmp_path_factory.mktemp("shared"), few_images)


def _copied(place: Path, images: Path) -> Example:
    _need("torch")
    folder = place / "digits"
    shutil.copytree(DIGITS, folder, ignore=shutil.ignore_patterns("data", "__pycache__"))
    shutil.copytree(images, folder / "data")
    (folder / "witness.py").write_text(WITNESS)
    return Example(folder, place / "home")


def _need(package: str) -> None:
    """Skip without a package that only the jobs import: here that would take half a minute."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
