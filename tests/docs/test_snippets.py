"""mypy strict, run once: on the snippets of the README and docs, and on mistakes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from snippets import ROOT, snippets

pytest.importorskip("mypy")
pytestmark = pytest.mark.long

#: Mistakes in calls, and what mypy should say about each.
MISTAKES = {
    "misspelled": (
        'from launcher import PyTorch\nPyTorch("train.py", max_runn=60)',
        'Unexpected keyword argument "max_runn" for "PyTorch"',
    ),
    "of_sdk_v2": (
        'from launcher import Estimator\nEstimator("image", git_config={"repo": "x"})',
        'Unexpected keyword argument "git_config" for "Estimator"',
    ),
    "wrong_type": (
        'from launcher import TensorFlow\nTensorFlow(entry_point="train.py", volume_size="30")',
        'Argument "volume_size" to "TensorFlow" has incompatible type "str"; expected "int"',
    ),
    "text_for_a_sequence_of_groups": (
        'from launcher import PyTorch\nPyTorch("train.py", instance_groups=["data"])',
        "List item 0 has incompatible type",
    ),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict[str, str]:
    """What mypy says about each module."""
    folder = tmp_path_factory.mktemp("snippets")
    for snippet in snippets():
        (folder / f"{snippet.name}.py").write_text(snippet.complete)
    for name, (text, _) in MISTAKES.items():
        (folder / f"{name}.py").write_text(text)
    files = sorted(folder.glob("*.py"))
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", *files],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=540,
    )
    assert run.returncode in (0, 1), run.stderr
    found: dict[str, str] = dict.fromkeys((file.stem for file in files), "")
    for line in run.stdout.splitlines():
        if where := re.match(r"(.*?)\.py:\d+: ", line):
            found.setdefault(where[1].rpartition("/")[2], "")
            found[where[1].rpartition("/")[2]] += f"{line}\n"
    return found


@pytest.mark.parametrize("snippet", list(snippets()), ids=lambda snippet: snippet.name)
def test_a_snippet_of_the_docs_has_the_types_of_the_package(said, snippet) -> None:
    assert said[snippet.name] == "", snippet.complete


def test_nothing_else_is_wrong(said) -> None:
    assert {name for name, lines in said.items() if lines} == MISTAKES.keys()


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_call_is_found_before_it_runs(said, name) -> None:
    assert MISTAKES[name][1] in said[name]
