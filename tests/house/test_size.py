"""`make size` on a tree whose figures are known, and the names that the product shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import size

PRODUCT = '''\
"""A module.

With two paragraphs.
"""

import os  # code all the same

# why


def f(x):
    """Return it."""
    text = """
# no comment
"""
    return x, text
'''


def test_lines_are_of_one_kind_each() -> None:
    source = size.Source(Path("launcher/a.py"), PRODUCT)
    assert source.lines == {"code": 6, "docstring": 5, "comment": 1, "blank": 4}
    figures = size.measure([source])
    assert (figures["functions"], figures["function_median"], figures["short_files"]) == (1, 6, 1)
    assert figures["import_share"] == round(1 / 16, 3)


def test_a_file_with_one_importer_is_found_however_it_is_imported() -> None:
    texts = {
        "launcher/__init__.py": "",
        "launcher/whole.py": "import launcher.once\nfrom launcher import twice, nothing",
        "launcher/room/__init__.py": "from .inner import X",
        "launcher/room/inner.py": "from .. import twice\nX = 1",
        "launcher/once.py": "",
        "launcher/twice.py": "",
    }
    alone = size.with_one_importer([size.Source(Path(path), text) for path, text in texts.items()])
    importers = {str(each.path): importer for each, importer in alone.items()}
    assert importers["launcher/once.py"] == "launcher.whole"
    assert importers["launcher/room/inner.py"] == "launcher.room"
    assert "launcher/twice.py" not in importers
    assert "launcher/whole.py" not in importers


@pytest.mark.long
def test_the_tree_is_measured_the_same_each_time() -> None:
    command = [sys.executable, str(size.ROOT / "tests" / "size.py"), "--json"]
    first, second = (subprocess.check_output(command, text=True) for _ in range(2))
    assert first == second
    found = json.loads(first)
    assert found["product"]["files"] > 100
    assert found["names"]["verbs"] > 5
    lines = sum(figures["code"] for figures in found["rooms"].values())
    assert lines == found["product"]["code"] + found["tests"]["code"]
