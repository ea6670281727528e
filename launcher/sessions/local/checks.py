"""What a platform must refuse: requests that cannot run, found before anything is started."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.errors import PlatformError, Problem
from launcher.sessions.local.channels import has_objects
from launcher.sessions.local.storage import path_of

_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_CHANNEL_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_GROUPS = 5
_REQUIRED = (
    "TrainingJobName",
    "AlgorithmSpecification",
    "OutputDataConfig",
    "ResourceConfig",
    "StoppingCondition",
)
#: What a request may ask of SageMaker and this machine does not do, and says so.
_NOT_DONE = (
    "VpcConfig",
    "CheckpointConfig",
    "EnableManagedSpotTraining",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "RetryStrategy",
)


def check_request(request: Mapping[str, Any]) -> None:
    """Raise one PlatformError with everything this machine cannot do of a request."""
    problems = [
        _problem(f"the request has no {field}", field, f"give {field}")
        for field in _REQUIRED
        if field not in request
    ]
    if not problems:
        problems = [
            *_check_job(request),
            *_check_groups(request["ResourceConfig"]),
            *_check_channels(request),
        ]
    if problems:
        raise PlatformError("\n".join(map(str, problems)))


def not_done(request: Mapping[str, Any]) -> list[str]:
    """A note for each part of the request that a local job ignores."""
    return [f"{field} has no effect on a local job" for field in _NOT_DONE if request.get(field)]


def _problem(what: str, where: str, fix: str) -> Problem:
    return Problem(what=what, where=f"request: {where}", fix=fix)


def _check_job(request: Mapping[str, Any]) -> Iterator[Problem]:
    name = request["TrainingJobName"]
    if not _JOB_NAME.fullmatch(name):
        yield _problem(
            f"{name!r} is not a legal job name",
            "TrainingJobName",
            "use 1 to 63 letters, digits and hyphens, without a hyphen at either end",
        )
    if not request["AlgorithmSpecification"].get("ContainerEntrypoint"):
        yield _problem(
            "there is no ContainerEntrypoint, and a local job does not run the image's own",
            "AlgorithmSpecification.ContainerEntrypoint",
            'give the command of every host, as ["python3", "/opt/ml/input/data/code/launch.py"]',
        )
    yield from _check_metrics(request["AlgorithmSpecification"])
    yield from _check_uri(request["OutputDataConfig"], "S3OutputPath", "OutputDataConfig")
    seconds = request["StoppingCondition"].get("MaxRuntimeInSeconds", 1)
    if seconds < 1:
        yield _problem(
            f"MaxRuntimeInSeconds is {seconds}", "StoppingCondition", "give at least 1 second"
        )
    for field in ("HyperParameters", "Environment"):
        for key, value in request.get(field, {}).items():
            if not isinstance(value, str):
                yield _problem(f"{value!r} is not a string", f"{field}.{key}", "encode it as JSON")


def _check_metrics(algorithm: Mapping[str, Any]) -> Iterator[Problem]:
    for metric in algorithm.get("MetricDefinitions", ()):
        where = f"AlgorithmSpecification.MetricDefinitions {metric['Name']!r}"
        try:
            groups = re.compile(metric["Regex"]).groups
        except re.error as error:
            yield _problem(f"{metric['Regex']!r} does not compile: {error}", where, "mend it")
            continue
        if groups < 1:
            yield _problem(
                f"{metric['Regex']!r} has no group", where, "put the number in parentheses"
            )


def _check_groups(resources: Mapping[str, Any]) -> Iterator[Problem]:
    groups = resources.get("InstanceGroups") or []
    plain = {"InstanceType", "InstanceCount"} & set(resources)
    if groups and plain:
        yield _problem(
            "InstanceType or InstanceCount cannot be specified with InstanceGroups",
            "ResourceConfig",
            f"take out {' and '.join(sorted(plain))}",
        )
    if not groups and len(plain) < 2:
        yield _problem(
            "neither InstanceGroups nor InstanceType with InstanceCount is given",
            "ResourceConfig",
            "give one of the two",
        )
    if len(groups) > _MAX_GROUPS:
        yield _problem(
            f"{len(groups)} instance groups",
            "ResourceConfig.InstanceGroups",
            f"use {_MAX_GROUPS} at most",
        )
    for name, times in Counter(group["InstanceGroupName"] for group in groups).items():
        if times > 1:
            yield _problem(
                f"{times} groups are named {name!r}",
                "ResourceConfig.InstanceGroups",
                "give each its own name",
            )
    for part in groups or [resources]:
        if part.get("InstanceCount", 1) < 1:
            yield _problem(
                f"InstanceCount is {part['InstanceCount']}",
                f"ResourceConfig {part.get('InstanceGroupName', '')}".rstrip(),
                "give at least 1",
            )


def _check_channels(request: Mapping[str, Any]) -> Iterator[Problem]:
    channels = request.get("InputDataConfig", ())
    groups = [
        group["InstanceGroupName"] for group in request["ResourceConfig"].get("InstanceGroups", ())
    ]
    default_mode = request["AlgorithmSpecification"].get("TrainingInputMode", "File")
    for name, times in Counter(channel["ChannelName"] for channel in channels).items():
        if times > 1:
            yield _problem(f"{times} channels are named {name!r}", "InputDataConfig", "rename one")
    yield from _check_routing(channels)
    for channel in channels:
        yield from _check_channel(channel, groups, default_mode)


def _check_routing(channels: list[Mapping[str, Any]]) -> Iterator[Problem]:
    routed = {
        channel["ChannelName"]: bool(
            channel["DataSource"].get("S3DataSource", {}).get("InstanceGroupNames")
        )
        for channel in channels
    }
    if len(set(routed.values())) > 1:
        have = [name for name, is_routed in routed.items() if is_routed]
        have_not = [name for name, is_routed in routed.items() if not is_routed]
        yield _problem(
            f"Some channels have assigned instance groups: {have} while others not: {have_not}",
            "InputDataConfig",
            "give InstanceGroupNames to every channel, or to none",
        )


def _check_channel(
    channel: Mapping[str, Any], groups: list[str], default_mode: str
) -> Iterator[Problem]:
    name = channel["ChannelName"]
    where = f"InputDataConfig {name!r}"
    if not _CHANNEL_NAME.fullmatch(name):
        yield _problem(
            f"{name!r} is not a channel name", where, "use letters, digits, '.', '_' and '-'"
        )
    source = channel["DataSource"].get("S3DataSource")
    if source is None:
        yield _problem("it is no S3DataSource", where, "a local job reads file:// sources only")
        return
    for group in source.get("InstanceGroupNames") or ():
        if group not in groups:
            yield _problem(f"there is no group {group!r}", where, f"the groups are {groups}")
    yield from _check_kind(channel, source, default_mode, where)
    unreachable = list(_check_uri(source, "S3Uri", where))
    yield from unreachable
    if not unreachable and not has_objects(path_of(source["S3Uri"])):
        yield _problem(
            f"no file is found at {source['S3Uri']}", where, "give a file, a folder or a prefix"
        )


def _check_kind(
    channel: Mapping[str, Any], source: Mapping[str, Any], default_mode: str, where: str
) -> Iterator[Problem]:
    """Forms of input that a local job does not have; FastFile looks the same as File."""
    known = {
        "InputMode": (channel.get("InputMode", default_mode), ("File", "FastFile")),
        "S3DataType": (source.get("S3DataType", "S3Prefix"), ("S3Prefix",)),
        "S3DataDistributionType": (
            source.get("S3DataDistributionType", "FullyReplicated"),
            ("FullyReplicated", "ShardedByS3Key"),
        ),
        "CompressionType": (channel.get("CompressionType", "None"), ("None",)),
        "RecordWrapperType": (channel.get("RecordWrapperType", "None"), ("None",)),
    }
    for field, (value, allowed) in known.items():
        if value not in allowed:
            yield _problem(
                f"{field} {value!r} is not known to local jobs",
                where,
                f"use {' or '.join(allowed)}",
            )


def _check_uri(part: Mapping[str, Any], field: str, where: str) -> Iterator[Problem]:
    try:
        path_of(part.get(field, ""))
    except PlatformError as error:
        yield _problem(str(error), f"{where}.{field}", "give a file:// URI")
