"""Each library that has an environment of its own has tests for it, and the other way round."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from library_run import RECORD, files_of, libraries

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("name", libraries())
def test_a_library_has_tests(name: str) -> None:
    assert files_of(name)


def test_each_mark_names_a_library() -> None:
    marks = re.compile(r"""mark\.library\(["'](.+?)["']\)""")
    named = {name for file in TESTS.rglob("test_*.py") for name in marks.findall(file.read_text())}
    assert named == set(libraries())


@pytest.mark.parametrize("framework", ["tensorflow", "jax", "ray"])
def test_ci_runs_a_test_of_each_framework(framework: str) -> None:
    assert set(files_of("smoke")) & set(files_of(framework))
    assert "make smoke" in (TESTS.parent / ".ci" / "run").read_text()


def test_an_unknown_library_is_refused_with_those_that_there_are() -> None:
    before = RECORD.read_bytes()
    script = TESTS / "library_run.py"
    run = subprocess.run(
        [sys.executable, script, "caffe"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f'no library "caffe": there are {", ".join(libraries())}\n'
    assert RECORD.read_bytes() == before
