"""Checks of field values: job name, command, metrics, instance groups, outputs and limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.request import check_name
from launcher.client.sessions.local.host.host_folder import checkpoint_config
from launcher.client.sessions.local.host.toolkit_mode import check_script_mode, is_script_mode
from launcher.client.sessions.local.storage.file_access import write_obstacle
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.request_uris import CHECKPOINTS, OUTPUT
from launcher.client.sessions.s3_uris import is_s3
from launcher.errors import PlatformError, Problem
from launcher.shared import DEFAULT_ML_ROOT, MlPaths

if TYPE_CHECKING:
    from launcher.errors import FieldPath
    from launcher.shared import (
        CheckpointFields,
        LimitFields,
        MetricFields,
        ResourceFields,
        TrainingJobRequest,
    )

_MAX_GROUPS = 5


def check_job(request: TrainingJobRequest) -> Iterator[Problem]:
    """Check name, command, metrics, output, time limit, and the types of values."""
    for problem in check_name(request["TrainingJobName"]):
        yield replace(problem, where="TrainingJobName")
    if is_script_mode(request):
        yield from check_script_mode(request)
    elif not request["AlgorithmSpecification"].get("ContainerEntrypoint"):
        yield Problem(
            what="there is no ContainerEntrypoint, and a local job does not run the image's own",
            where="AlgorithmSpecification",
            fix='give the command of every host: ["python3", "/opt/ml/input/data/code/launch.py"]; '
            "or the hyperparameters sagemaker_program and sagemaker_submit_directory",
        )
    for metric in request["AlgorithmSpecification"].get("MetricDefinitions", ()):
        yield from _check_metric(metric)
    output = request["OutputDataConfig"].get("S3OutputPath", "")
    yield from _check_output_uri(output, OUTPUT)
    yield from _check_time(request["StoppingCondition"])
    yield from _check_checkpoints(checkpoint_config(request))
    yield from _check_strings("HyperParameters", request.get("HyperParameters", {}))
    yield from _check_strings("Environment", request.get("Environment", {}))


def _check_strings(field: str, values: Mapping[str, object]) -> Iterator[Problem]:
    for key, value in values.items():
        if not isinstance(value, str):
            yield Problem(
                what=f"{value!r} is not a string",
                where=f"{field} {key!r}",
                fix="encode it as JSON",
            )


def check_groups(resources: ResourceFields) -> Iterator[Problem]:
    """Check for either groups or one type and count, for unique names, and for counts above 0."""
    groups = resources.get("InstanceGroups") or []
    plain = {"InstanceType", "InstanceCount"} & set(resources)
    if groups and plain:
        yield Problem(
            what="InstanceType or InstanceCount cannot be specified with InstanceGroups",
            where="ResourceConfig",
            fix=f"take out {' and '.join(sorted(plain))}",
        )
    if not groups and len(plain) < 2:
        yield Problem(
            what="neither InstanceGroups nor InstanceType with InstanceCount is given",
            where="ResourceConfig",
            fix="give one of the two",
        )
    if len(groups) > _MAX_GROUPS:
        yield Problem(
            what=f"there are {len(groups)} instance groups",
            where="ResourceConfig",
            fix=f"use {_MAX_GROUPS} at most",
        )
    for name, times in Counter(group["InstanceGroupName"] for group in groups).items():
        if times > 1:
            yield Problem(
                what=f"{times} groups are named {name!r}",
                where="ResourceConfig",
                fix="give each its own name",
            )
    counts = [(each.get("InstanceGroupName", ""), each.get("InstanceCount", 1)) for each in groups]
    for name, count in counts or [("", resources.get("InstanceCount", 1))]:
        if count < 1:
            yield Problem(
                what=f"InstanceCount is {count}",
                where=f"ResourceConfig {name}".rstrip(),
                fix="give at least 1",
            )


def _check_metric(metric: MetricFields) -> Iterator[Problem]:
    where = f"MetricDefinitions {metric['Name']!r}"
    try:
        groups = re.compile(metric["Regex"]).groups
    except (re.error, OverflowError, RecursionError) as error:
        yield Problem(
            what=f"{metric['Regex']!r} does not compile: {error}",
            where=where,
            fix="give a regular expression of Python",
        )
        return
    if groups < 1:
        yield Problem(
            what=f"{metric['Regex']!r} has no group",
            where=where,
            fix="put the number in parentheses",
        )


def _check_output_uri(uri: str, path: FieldPath) -> Iterator[Problem]:
    """Check a location that the job writes to: in S3, or a local folder that may not exist yet."""
    where = " ".join(map(str, path))
    if is_s3(uri):
        return
    try:
        folder = path_of(uri)
    except PlatformError as error:
        yield Problem(what=str(error), path=path, where=where, fix="give a file:// or s3:// URI")
        return
    if obstacle := write_obstacle(folder):
        yield Problem(what=obstacle, path=path, where=where, fix="give another place")


def _check_time(condition: LimitFields) -> Iterator[Problem]:
    seconds = condition.get("MaxRuntimeInSeconds", 1)
    if seconds < 1:
        yield Problem(
            what=f"MaxRuntimeInSeconds is {seconds}",
            where="StoppingCondition",
            fix="give at least 1 second",
        )


def _check_checkpoints(config: CheckpointFields | None) -> Iterator[Problem]:
    if config is None:
        return
    yield from _check_output_uri(config.get("S3Uri", ""), CHECKPOINTS)
    folder = PurePosixPath(config["LocalPath"])
    is_below = folder.is_relative_to(DEFAULT_ML_ROOT) and folder != PurePosixPath(DEFAULT_ML_ROOT)
    if not is_below or ".." in folder.parts:
        yield Problem(
            what=f"{folder} is not a folder below {DEFAULT_ML_ROOT}",
            path=("CheckpointConfig", "LocalPath"),
            where="CheckpointConfig LocalPath",
            fix=f"use {MlPaths().checkpoints}: a local host has no other folders of its own",
        )
