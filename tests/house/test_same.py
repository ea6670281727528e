"""`make same` prints what differs between two trees, and nothing where nothing does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import same

LIMITS = "refused (least max_run|least volume)$"


def compared(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(same.ROOT / "tests" / "same.py"), "--tree", str(tree)]
    return subprocess.run([*command, *options], capture_output=True, text=True)


def copied(folder: Path, word: str = "", other: str = "") -> Path:
    """Today's tree, with one text of one file replaced."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("launcher", "entrypoints"):
        shutil.copytree(same.ROOT / name, folder / name, ignore=ignored)
    if word:
        (file,) = (path for path in folder.rglob("*.py") if word in path.read_text())
        file.write_text(file.read_text().replace(word, other))
    return folder


def test_each_leaf_that_differs_is_a_line() -> None:
    old = {"a": {"told": [1, 2]}, "b": {"x": None}, "c": {}}
    new = {"a": {"told": [1, 3, 4]}, "b": {"x": None}, "d": "y"}
    assert list(same.differences(old, new)) == [
        "a: told[1]\n    - 2\n    + 3",
        "a: told[2]\n    - (absent)\n    + 4",
        "c: \n    - {}\n    + (absent)",
        "d: \n    - (absent)\n    + y",
    ]
    assert list(same.differences(new, new)) == []


@pytest.mark.long
def test_a_message_that_differs_is_the_row_that_is_printed(tmp_path: Path) -> None:
    found = compared(
        copied(tmp_path, 'return f"use {least} or', 'return f"use {least} and'),
        "--parts=bad",
        f"--rows={LIMITS}",
    )
    assert found.returncode == 1, found.stderr
    assert found.stdout == (
        "bad / refused least max_run: told[0].fix\n    - use 1 and more\n    + use 1 or more\n"
    )


@pytest.mark.long
def test_a_field_of_a_request_that_differs_is_printed(tmp_path: Path) -> None:
    tree = copied(tmp_path, "volume_size: int = job_field(30", "volume_size: int = job_field(31")
    found = compared(tree, "--parts=requests", "--rows=configuration 00")
    assert found.returncode == 1, found.stderr
    lines = found.stdout.splitlines()
    assert {line.partition(": ")[2] for line in lines[::3]} == {
        "made.ResourceConfig.VolumeSizeInGB"
    }
    assert set(lines[1::3]) == {"    - 31"}
    assert set(lines[2::3]) == {"    + 30"}


@pytest.mark.long
def test_equal_trees_differ_in_nothing(tmp_path: Path) -> None:
    for parts, rows in (("bad", LIMITS), ("requests,diagnosis", "00|input-bound|slow|done")):
        found = compared(copied(tmp_path / parts), f"--parts={parts}", f"--rows={rows}")
        assert (found.returncode, found.stdout) == (0, ""), found
        assert ", 0 differences\n" in found.stderr
        assert " 0 inputs" not in found.stderr
