"""The table of what Launcher has not of SDK v2 (docs/from-sdk-v2.md), against both packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import launcher
from launcher import Estimator, HuggingFace, Job, MemorySession, PyTorch, Session, TensorFlow

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "from-sdk-v2.md").read_text()
ROWS = re.findall(
    r"^\| (\w+) \| (.+?) \| (.+) \|$", PAGE.partition("\n## What is not there\n")[2], re.M
)
#: The patterns of each section of the table.
PATTERNS = {
    section: [
        name for of, names, _ in ROWS if of == section for name in re.findall("`(.+?)`", names)
    ]
    for section in ("estimator", "job", "session", "class")
}
MADE = [Estimator(), PyTorch(), TensorFlow(entry_point="train.py"), HuggingFace()]
OURS = {
    "estimator": {name for made in MADE for name in dir(made)},
    "job": set(dir(Job("job-1", MemorySession()))),
    "session": set(dir(Session())),
    "class": set(launcher.__all__),
}


def test_the_table_has_its_sections_and_a_way_in_each_row():
    assert {of for of, _, _ in ROWS} - {"of"} == set(PATTERNS)
    assert all(instead.strip() for _, _, instead in ROWS)


@pytest.mark.parametrize("section", PATTERNS)
def test_each_name_is_in_one_row(section):
    assert len(PATTERNS[section]) == len(set(PATTERNS[section]))


@pytest.mark.parametrize("section", ["estimator", "job", "session", "class"])
def test_what_the_table_names_is_not_there(section):
    exact = [name for name in PATTERNS[section] if "*" not in name]
    assert [name for name in exact if name in OURS[section]] == []


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The public names of the installed package, by section."""
    printed = subprocess.run(
        [sys.executable, HERE / "surface_v2.py"],
        cwd=tmp_path_factory.mktemp("surface"),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(printed.stdout.splitlines()[-1])


@pytest.mark.library("sagemaker-v2")
@pytest.mark.parametrize("section", PATTERNS)
def test_the_table_is_what_sdk_v2_has_and_launcher_has_not(theirs, section):
    missing = [name for name in theirs[section] if name not in OURS[section]]
    patterns = PATTERNS[section]
    unnamed = [n for n in missing if not any(fnmatchcase(n, pattern) for pattern in patterns)]
    idle = [p for p in patterns if not any(fnmatchcase(name, p) for name in missing)]
    assert (unnamed, idle) == ([], [])
