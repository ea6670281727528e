"""Checks of the input channels: their names, routing and kinds, and that their files exist."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.input_channels import has_objects
from launcher.client.sessions.local.storage.request_uris import place_of
from launcher.client.sessions.s3_uris import is_s3
from launcher.errors import PlatformError, Problem

if TYPE_CHECKING:
    from launcher.shared import ChannelFields, S3SourceFields, TrainingJobRequest

_CHANNEL_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_inputs(request: TrainingJobRequest, uploads: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of InputDataConfig; the objects of `uploads` count as existing files."""
    channels = request.get("InputDataConfig", ())
    for name, times in Counter(channel["ChannelName"] for channel in channels).items():
        if times > 1:
            yield Problem(
                what=f"{times} channels are named {name!r}",
                path=("InputDataConfig",),
                fix="give each its own name",
            )
    yield from _check_completeness(channels)
    for index, channel in enumerate(channels):
        path = ("InputDataConfig", index)
        where = place_of(request, path)
        found = [*_check_channel(channel, request, where)]
        if source := _source(channel):
            found += _check_files(source.get("S3Uri", ""), uploads, where)
        yield from (replace(problem, path=path) for problem in found)


def _check_completeness(channels: Sequence[ChannelFields]) -> Iterator[Problem]:
    """Apply SageMaker's rule, in its wording: either all channels are routed to groups, or none."""
    is_routed = {
        channel["ChannelName"]: bool(_source(channel).get("InstanceGroupNames"))
        for channel in channels
    }
    routed = [name for name, routed in is_routed.items() if routed]
    others = [name for name, routed in is_routed.items() if not routed]
    if routed and others:
        yield Problem(
            what=f"Some channels have assigned instance groups: {routed} "
            f"while others not: {others}",
            path=("InputDataConfig",),
            fix="give InstanceGroupNames to every channel, or to none",
        )


def _check_channel(
    channel: ChannelFields, request: TrainingJobRequest, where: str
) -> Iterator[Problem]:
    name, source = channel["ChannelName"], _source(channel)
    if not _CHANNEL_NAME.fullmatch(name) or name in (".", ".."):
        yield Problem(
            what=f"{name!r} is not a channel name",
            where=where,
            fix="use 1 to 64 letters, digits, '.', '_' and '-', and neither '.' nor '..'",
        )
    if not source:
        yield Problem(
            what="there is no S3DataSource, and a local job mounts no file system",
            where=where,
            fix="give an S3DataSource with a file:// or s3:// URI",
        )
        return
    groups = request["ResourceConfig"].get("InstanceGroups") or ()
    known = [group["InstanceGroupName"] for group in groups]
    for group in source.get("InstanceGroupNames") or ():
        if group not in known:
            yield Problem(
                what=f"there is no group {group!r}", where=where, fix=f"the groups are {known}"
            )
    default_mode = request["AlgorithmSpecification"].get("TrainingInputMode", "File")
    yield from _check_kind(channel, source, default_mode, where)


def _check_kind(
    channel: ChannelFields, source: S3SourceFields, default_mode: str, where: str
) -> Iterator[Problem]:
    """Yield a problem for each input option that local jobs lack; FastFile works like File."""
    kinds = {
        "InputMode": (channel.get("InputMode", default_mode), ("File", "FastFile")),
        "S3DataType": (source.get("S3DataType", "S3Prefix"), ("S3Prefix", "ManifestFile")),
        "S3DataDistributionType": (
            source.get("S3DataDistributionType", "FullyReplicated"),
            ("FullyReplicated", "ShardedByS3Key"),
        ),
        "CompressionType": (channel.get("CompressionType", "None"), ("None",)),
        "RecordWrapperType": (channel.get("RecordWrapperType", "None"), ("None",)),
    }
    for field, (value, allowed) in kinds.items():
        if value not in allowed:
            yield Problem(
                what=f"{field} {value!r} is not known to local jobs",
                where=where,
                fix=f"use {' or '.join(allowed)}",
            )
    if source.get("S3DataType") == "ManifestFile" and not is_s3(source.get("S3Uri", "")):
        yield Problem(
            what="S3DataType 'ManifestFile' needs an s3:// URI: a manifest lists objects in S3",
            where=where,
            fix="give the manifest's s3:// URI, or use S3Prefix and a folder of files",
        )


def _check_files(uri: str, uploads: Collection[str], where: str) -> Iterator[Problem]:
    """Check that local files exist; for S3 the job finds out, as on SageMaker."""
    if is_s3(uri):
        return
    try:
        is_there = has_objects(path_of(uri)) or any(each.startswith(uri) for each in uploads)
    except PlatformError as error:
        yield Problem(what=str(error), where=where, fix="give a file:// or s3:// URI")
        return
    if not is_there:
        yield Problem(
            what=f"no file is found at {uri}",
            where=where,
            fix="give a file, a folder that is not empty, or a prefix of files",
        )


def _source(channel: ChannelFields) -> S3SourceFields:
    return channel["DataSource"].get("S3DataSource") or {}
