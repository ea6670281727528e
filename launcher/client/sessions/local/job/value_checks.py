"""Checks of what a job runs, what it measures, and where its results go."""

from __future__ import annotations

from collections.abc import Iterator
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
from launcher.client.spec import regex_problems
from launcher.errors import PlatformError, Problem
from launcher.shared import DEFAULT_ML_ROOT, MlPaths

if TYPE_CHECKING:
    from launcher.errors import FieldPath
    from launcher.shared import CheckpointFields, TrainingJobRequest


def check_job(request: TrainingJobRequest) -> Iterator[Problem]:
    """Check the name, the command, the metrics and the places of results."""
    for problem in check_name(request.get("TrainingJobName")):
        yield replace(problem, path=("TrainingJobName",), where="TrainingJobName")
    algorithm = request.get("AlgorithmSpecification", {})
    if is_script_mode(request):
        yield from check_script_mode(request)
    elif not algorithm.get("ContainerEntrypoint"):
        yield Problem(
            what="there is no ContainerEntrypoint, and a local job does not run the image's own",
            path=("AlgorithmSpecification", "ContainerEntrypoint"),
            where="AlgorithmSpecification",
            fix='give the command of every host: ["python3", "/opt/ml/input/data/code/launch.py"]; '
            "or the hyperparameters sagemaker_program and sagemaker_submit_directory",
        )
    for index, metric in enumerate(algorithm.get("MetricDefinitions", ())):
        path = ("AlgorithmSpecification", "MetricDefinitions", index, "Regex")
        yield from regex_problems(metric.get("Name", ""), metric.get("Regex", "()"), path)
    output = request.get("OutputDataConfig", {}).get("S3OutputPath")
    if output is not None:
        yield from _check_output_uri(output, OUTPUT)
    yield from _check_checkpoints(checkpoint_config(request))


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
