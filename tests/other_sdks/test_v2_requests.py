"""CreateTrainingJob as SDK v2 2.257 sends it, and as Launcher does, for one table of jobs.

Each field is equal, or differs for a reason that stands by name in a table of the docs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(HERE))  # v2_configurations is read by the other environment as well

from v2_configurations import configurations  # noqa: E402 (needs the path)
from v2_differences import DIFFERENCES, Difference, Field, differing  # noqa: E402 (likewise)

PAGE = (REPOSITORY / "docs" / "reference" / "sdk-v2.md").read_text()
NAMES = [each.name for each in configurations()]
Outcomes = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcomes]:
    """What both packages send or refuse."""
    folder = tmp_path_factory.mktemp("v2-requests")
    return {package: json.loads(_run(package, folder)) for package in ("sagemaker", "launcher")}


def _run(package: str, folder: Path) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    result = subprocess.run(
        [sys.executable, HERE / "v2_requests.py", package],
        env={**kept, "PYTHONPATH": str(REPOSITORY), "HOME": str(folder)},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return result.stdout


def reasons_of(field: Field) -> list[str]:
    return [each.name for each in DIFFERENCES if each.explains(field)]


def refusal(difference: Difference, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """Whether a difference is the reason why one of the packages refuses a job."""
    said = {"sagemaker": theirs.get("error", ""), "launcher": ours.get("error", "")}
    return any(part in said[package] for package, part in (difference.refuses or {}).items())


def test_there_are_120_configurations_with_names_of_their_own() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 120


def test_the_docs_name_every_difference_and_no_other() -> None:
    section = PAGE.partition("## Requests, field by field")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    named = [name for name in rows if name != "difference" and not name.startswith("-")]
    assert named == [each.name for each in DIFFERENCES]


@pytest.mark.library("sagemaker-v2")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_a_request_is_sdk_v2s_or_differs_for_a_named_reason(
    name: str, outcomes: dict[str, Outcomes]
) -> None:
    theirs, ours = outcomes["sagemaker"][name], outcomes["launcher"][name]
    if "error" in theirs and "error" in ours:
        return
    if "error" in theirs or "error" in ours:
        assert any(refusal(each, theirs, ours) for each in DIFFERENCES), (theirs, ours)
        return
    unexplained = [
        field for field in differing(theirs["request"], ours["request"]) if not reasons_of(field)
    ]
    assert unexplained == []


@pytest.mark.library("sagemaker-v2")
@pytest.mark.timeout(1800)
def test_every_difference_is_the_reason_of_some_field(outcomes: dict[str, Outcomes]) -> None:
    used: set[str] = set()
    for name in NAMES:
        theirs, ours = outcomes["sagemaker"][name], outcomes["launcher"][name]
        used |= {each.name for each in DIFFERENCES if refusal(each, theirs, ours)}
        if "request" in theirs and "request" in ours:
            for field in differing(theirs["request"], ours["request"]):
                used |= set(reasons_of(field))
    assert used == {each.name for each in DIFFERENCES}
