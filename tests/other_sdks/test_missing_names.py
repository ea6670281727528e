"""The table of what Launcher has not of SDK v2 (docs/reference/sdk-v2.md), against both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import launcher
from launcher import (
    Estimator,
    HuggingFace,
    Job,
    LauncherError,
    MemorySession,
    PyTorch,
    Session,
    TensorFlow,
)

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "reference" / "sdk-v2.md").read_text()
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


# The estimator's names, one by one --------------------------------------------------------------

#: Those of every estimator of SDK v2 2.257.0; the installed package is compared below.
NAMES = (HERE / "estimator_names_v2.txt").read_text().split()
#: Attributes that tell of a job, and raise by name where there is none.
OF_A_JOB = {
    "latest_job_debugger_artifacts_path",
    "latest_job_profiler_artifacts_path",
    "latest_job_tensorboard_artifacts_path",
    "logs",
    "model_data",
    "training_job_analytics",
}


def estimator_with(name):
    return next((made for made in MADE if hasattr(type(made), name)), MADE[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_v2_works_or_is_refused_by_name(name):
    """No third outcome: an assignment that no job reads would be lost without a word."""
    made = estimator_with(name)
    if name not in OURS["estimator"]:
        with pytest.raises(AttributeError, match=name):
            getattr(made, name)
        with pytest.raises(AttributeError, match=name):
            setattr(made, name, "x")
        return
    if name in OF_A_JOB:
        with pytest.raises((AttributeError, LauncherError), match="not run a job"):
            _called(getattr(made, name))
        return
    value = getattr(made, name)
    if not callable(value) or name in ("hyperparameters", "enable_network_isolation"):
        assert set_and_read(type(made), name) or "no setter" in refusal_of(made, name)


def _called(value):
    return value() if callable(value) else value


def set_and_read(kind, name):
    """Whether what is assigned stands in the job, and an absent value is the default again."""
    given = VALUES.get(name, "x")
    made = kind(entry_point="train.py")
    try:
        setattr(made, name, given)
    except AttributeError:
        return False
    now = getattr(made, name)
    kept = made.sagemaker_session if name == "sagemaker_session" else getattr(made.spec, name, now)
    return _called(now) == given == kept


def refusal_of(made, name):
    try:
        setattr(made, name, "x")
    except AttributeError as error:
        return str(error)
    return ""


#: What is assigned where a text is converted to another value or refused.
VALUES = {
    "container_arguments": ("a",),
    "container_entry_point": ("a",),
    "debugger_hook_config": {"S3OutputPath": "s3://b/x"},
    "dependencies": ("lib",),
    "distribution": None,
    "enable_network_isolation": True,
    "environment": {"A": "1"},
    "hyperparameters": {"a": 1},
    "instance_groups": (),
    "metric_definitions": (),
    "profiler_config": {"S3OutputPath": "s3://b/x"},
    "profiler_rules": (),
    "rules": (),
    "security_group_ids": ("sg-1",),
    "subnets": ("subnet-1",),
    "tags": {"a": "1"},
    "tensorboard_output_config": {"S3OutputPath": "s3://b/x"},
}


def test_a_misspelled_attribute_is_not_lost():
    with pytest.raises(AttributeError, match="did you mean 'instance_count'"):
        PyTorch("train.py").instance_coutn = 3


def test_a_subclass_may_have_attributes_of_its_own():
    class OfATeam(PyTorch):
        pass

    made = OfATeam("train.py")
    made.team = "vision"
    assert made.team == "vision"
    with pytest.raises(AttributeError, match="clone the repository"):
        made.git_config = {"repo": "https://example.com/x.git"}


def test_a_change_of_the_hyperparameters_takes_effect():
    given = {"lr": 1}
    made = Estimator(hyperparameters=given)
    made.hyperparameters()["lr"] = 2
    assert (made.spec.hyperparameters, given) == ({"lr": 2}, {"lr": 1})
    made.hyperparameters = None
    made.hyperparameters()["lr"] = 3
    assert Estimator().hyperparameters() == {}


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
def test_the_list_of_names_is_the_packages(theirs):
    assert theirs["estimator"] == NAMES


@pytest.mark.library("sagemaker-v2")
@pytest.mark.parametrize("section", PATTERNS)
def test_the_table_is_what_sdk_v2_has_and_launcher_has_not(theirs, section):
    missing = [name for name in theirs[section] if name not in OURS[section]]
    patterns = PATTERNS[section]
    unnamed = [n for n in missing if not any(fnmatchcase(n, pattern) for pattern in patterns)]
    idle = [p for p in patterns if not any(fnmatchcase(name, p) for name in missing)]
    assert (unnamed, idle) == ([], [])
