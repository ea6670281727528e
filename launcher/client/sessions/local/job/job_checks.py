"""Check a local job's programs, metrics, inputs and destinations."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.sessions.job_names import check_name
from launcher.client.sessions.local.host.host_folder import checkpoint_config
from launcher.client.sessions.local.host.toolkit_mode import check_script_mode, is_script_mode
from launcher.client.sessions.local.job.job_hosts import LOCAL_GPU, groups_of
from launcher.client.sessions.local.storage.file_access import write_obstacle
from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.input_channels import has_objects
from launcher.client.sessions.local.storage.request_uris import CHECKPOINTS, OUTPUT, place_of
from launcher.client.sessions.s3_uris import is_s3
from launcher.client.spec import regex_problems
from launcher.errors import PlatformError, Problem
from launcher.shared import DEFAULT_ML_ROOT, MlPaths, visible_gpus

if TYPE_CHECKING:
    from launcher.errors import FieldPath
    from launcher.shared import ChannelFields, CheckpointFields, S3SourceFields, TrainingJobRequest


_SOURCE = ("DataSource", "S3DataSource")


def check_inputs(request: TrainingJobRequest, uploads: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of InputDataConfig; the objects of `uploads` count as existing files."""
    default_mode = request.get("AlgorithmSpecification", {}).get("TrainingInputMode", "File")
    for index, channel in enumerate(request.get("InputDataConfig", ())):
        path = ("InputDataConfig", index)
        where = place_of(request, path)
        for problem in _check_channel(channel, default_mode, uploads):
            yield replace(problem, path=(*path, *problem.path), where=where)


def _check_channel(
    channel: ChannelFields, default_mode: str, uploads: Collection[str]
) -> Iterator[Problem]:
    """Yield the problems of a channel, whose paths begin at the channel."""
    if channel.get("ChannelName") in (".", ".."):
        yield Problem(
            what=f"{channel['ChannelName']!r} is not a channel name",
            path=("ChannelName",),
            fix="give the channel's folder a name: neither '.' nor '..'",
        )
    source = channel.get("DataSource", {}).get("S3DataSource")
    if not source:
        yield Problem(
            what="there is no S3DataSource, and a local job mounts no file system",
            path=("DataSource",),
            fix="give an S3DataSource with a file:// or s3:// URI",
        )
        return
    yield from _check_kind(channel, source, default_mode)
    yield from _check_files(source.get("S3Uri", ""), uploads)


def _check_kind(
    channel: ChannelFields, source: S3SourceFields, default_mode: str
) -> Iterator[Problem]:
    """Yield a problem for each input option that local jobs lack; FastFile works like File."""
    kinds: Mapping[FieldPath, tuple[str, Sequence[str]]] = {
        ("InputMode",): (channel.get("InputMode", default_mode), ("File", "FastFile")),
        (*_SOURCE, "S3DataType"): (
            source.get("S3DataType", "S3Prefix"),
            ("S3Prefix", "ManifestFile"),
        ),
        ("CompressionType",): (channel.get("CompressionType", "None"), ("None",)),
        ("RecordWrapperType",): (channel.get("RecordWrapperType", "None"), ("None",)),
    }
    for path, (value, allowed) in kinds.items():
        if value not in allowed:
            yield Problem(
                what=f"{path[-1]} {value!r} is not known to local jobs",
                path=path,
                fix=f"use {' or '.join(allowed)}",
            )
    if source.get("S3DataType") == "ManifestFile" and not is_s3(source.get("S3Uri", "")):
        yield Problem(
            what="S3DataType 'ManifestFile' needs an s3:// URI: a manifest lists objects in S3",
            path=(*_SOURCE, "S3DataType"),
            fix="give the manifest's s3:// URI, or use S3Prefix and a folder of files",
        )


def _check_files(uri: str, uploads: Collection[str]) -> Iterator[Problem]:
    """Check that local files exist; for S3 the job finds out, as on SageMaker."""
    if is_s3(uri):
        return
    path = (*_SOURCE, "S3Uri")
    try:
        is_there = has_objects(path_of(uri)) or any(each.startswith(uri) for each in uploads)
    except PlatformError as error:
        yield Problem(what=str(error), path=path, fix="give a file:// or s3:// URI")
        return
    if not is_there:
        yield Problem(
            what=f"no file is found at {uri}",
            path=path,
            fix="give a file, a folder that is not empty, or a prefix of files",
        )


def check_job(request: TrainingJobRequest, *, runs_image: bool) -> Iterator[Problem]:
    """Check the name, the command, the metrics and the places of results.

    runs_image: hosts are containers of the request's image, with the image's own start.
    """
    for problem in check_name(request.get("TrainingJobName")):
        yield replace(problem, path=("TrainingJobName",), where="TrainingJobName")
    algorithm = request.get("AlgorithmSpecification", {})
    if runs_image:
        yield from _check_image(request)
    elif is_script_mode(request):
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


def _check_image(request: TrainingJobRequest) -> Iterator[Problem]:
    algorithm = request.get("AlgorithmSpecification", {})
    if algorithm.get("TrainingImage", "local") == "local":
        yield Problem(
            what="the request names no image, and each host is a container of one",
            path=("AlgorithmSpecification", "TrainingImage"),
            where="image_uri",
            fix="give image_uri, or framework_version for AWS's image of a framework",
        )
    kinds = {kind for _, kind, _ in groups_of(request)}
    if LOCAL_GPU in kinds and not visible_gpus(os.environ):
        yield Problem(
            what=f"the instance type is {LOCAL_GPU}, and this machine shows no GPU",
            path=("ResourceConfig",),
            where="instance_type",
            fix='use "local", or a machine where nvidia-smi shows a GPU',
        )
    if algorithm.get("ContainerArguments") and not algorithm.get("ContainerEntrypoint"):
        yield Problem(
            what="there are ContainerArguments without a ContainerEntrypoint",
            path=("AlgorithmSpecification", "ContainerArguments"),
            where="AlgorithmSpecification",
            fix="give the ContainerEntrypoint that takes them: an image's own start gets `train`",
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
