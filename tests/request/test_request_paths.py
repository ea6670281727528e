"""The table of request paths: each field of a job is in it once, and all else follows it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from launcher.client.request import (
    REQUEST_PATHS,
    fill_paths,
    input_shape,
    read_path,
    read_paths,
)
from launcher.client.spec import JobSpec

TESTS = Path(__file__).parents[1]
FIELDS = {part.name for part in dataclasses.fields(JobSpec)} - {"where"}
#: Fields without a strategy yet; a new field needs one. The values of secrets are in the
#: environment of whoever sends the job.
NOT_GENERATED = {"output_path", "code_location", "disable_profiler", "secrets"}
#: A value of each kind of copy; `rules` and its like are copied, but their objects are not.
COPIES = {
    "input_mode": "FastFile",
    "container_arguments": ("--a", "b"),
    "volume_size": 77,
    "max_run": 60,
    "max_wait": 90,
    "enable_network_isolation": True,
    "enable_session_tag_chaining": False,
    "subnets": ("subnet-1",),
    "instance_placement_config": {"EnableMultipleJobs": True},
    "enable_remote_debug": True,
    "training_repository_credentials_provider_arn": "arn",
}


def test_each_path_is_of_one_field() -> None:
    assert len(set(REQUEST_PATHS.values())) == len(REQUEST_PATHS)


@pytest.mark.parametrize("path", REQUEST_PATHS.values())
def test_a_path_is_one_of_the_service_model(path: str) -> None:
    shape = input_shape()
    for name in path.split("."):
        shape = shape.members[name]


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_read_back_from_where_it_was_put(name: str) -> None:
    value = COPIES[name]
    request = fill_paths(JobSpec(**{name: value}), made={})
    sent = list(value) if isinstance(value, tuple) else value
    assert read_path(request, REQUEST_PATHS[name]) == sent
    assert read_paths(request)[name] == sent


def test_what_is_not_set_is_not_sent() -> None:
    request = fill_paths(JobSpec(), made={"hyperparameters": None, "environment": None})
    empty = {"inputs": {}, "tags": {}}
    assert {name: part for name, part in read_paths(request).items() if name not in empty} == {
        "input_mode": "File",
        "volume_size": 30,
        "max_run": 24 * 60 * 60,
    }


def test_generated_jobs_have_each_field() -> None:
    strategies = (TESTS / "generated" / "job_strategies.py").read_text()
    assert {f for f in FIELDS if not re.search(rf"\b{f}\b", strategies)} == NOT_GENERATED
