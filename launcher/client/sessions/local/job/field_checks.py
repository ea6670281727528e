"""Checks of the input channels: their kinds, and that their files exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.client.sessions.local.storage.file_uris import path_of
from launcher.client.sessions.local.storage.input_channels import has_objects
from launcher.client.sessions.local.storage.request_uris import place_of
from launcher.client.sessions.s3_uris import is_s3
from launcher.errors import PlatformError, Problem

if TYPE_CHECKING:
    from launcher.errors import FieldPath
    from launcher.shared import ChannelFields, S3SourceFields, TrainingJobRequest

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
