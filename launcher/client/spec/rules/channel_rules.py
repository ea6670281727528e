"""Rules for the input channels.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html and the
pages of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.job_parts import FileSystemInput, TrainingInput
from launcher.client.spec.roles import job_roles
from launcher.errors import FieldPath, Problem
from launcher.shared import CODE_CHANNEL, Role

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_INPUTS = ("inputs",)
_CHANNELS_LIMIT = 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_S3_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the input channels."""
    most = _CHANNELS_LIMIT - spec.has_code_channel - (spec.model_uri is not None)
    if len(spec.inputs) > most:
        what = f"{len(spec.inputs)} channels"
        fix = f"use {most} at most (SageMaker takes {_CHANNELS_LIMIT}, of code and model too)"
        yield Problem(path=_INPUTS, about=(("model_uri",),), what=what, fix=fix)
    yield from _reach_problems(spec)
    yield from _model_problems(spec)
    for name, each in spec.inputs.items():
        yield from _name_problems(spec, name, (*_INPUTS, name))
        if isinstance(each, FileSystemInput):
            yield from _folder_problems(each.directory_path, (*_INPUTS, name, "directory_path"))
    for name, channel in spec.s3_inputs.items():
        path = (*_INPUTS, name)
        yield from uri_problems(channel.s3_data, (*path, "s3_data"))
        yield from _manifest_problems(spec, channel, path)
        yield from _sharding_problems(spec, channel, path)


def _model_problems(spec: JobSpec) -> Iterator[Problem]:
    """Check `model_uri` and its channel, which is added to the user's channels."""
    if spec.model_uri is None:
        return
    yield from uri_problems(spec.model_uri, ("model_uri",))
    path, name = ("model_channel_name",), spec.model_channel_name
    yield from _name_problems(spec, name, path)
    if name in spec.inputs:
        what = f'the channel "{name}" is given twice: by inputs, and for model_uri'
        fix = "give another model_channel_name"
        yield Problem(path=path, about=((*_INPUTS, name),), what=what, fix=fix)


def uri_problems(uri: str, path: FieldPath) -> Iterator[Problem]:
    """Find problems with the URI of an input or an output."""
    if uri.startswith("file://") and len(uri) > len("file://"):
        return
    if "://" not in uri:
        fix = f'write "file://{uri}" for a folder of this machine, or s3://bucket/prefix'
    elif uri.lower().startswith("s3://"):
        fix = "write s3://bucket/prefix; a bucket has 3 to 63 of a-z, 0-9, dot and hyphen"
    else:
        fix = "write s3://bucket/prefix, or file:///folder"
    if not _S3_URI.fullmatch(uri):
        yield Problem(path=path, what=f'"{uri}" is not the URI of data', fix=fix)


def is_channel_name(name: str) -> bool:
    """Return whether a channel may have the name, which is that of its folder on the hosts."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..", CODE_CHANNEL)


def _name_problems(spec: JobSpec, name: str, path: FieldPath) -> Iterator[Problem]:
    if name == CODE_CHANNEL and not spec.has_code_channel:
        return  # the job's own program reads it
    if name == CODE_CHANNEL:
        what = f'the channel name "{name}" is reserved for the code'
        yield Problem(path=path, what=what, fix="give the channel another name")
    elif name in (".", ".."):
        what = f'"{name}" cannot be the name of a channel'
        yield Problem(path=path, what=what, fix="give the channel's folder a name")


def _folder_problems(folder: str, path: FieldPath) -> Iterator[Problem]:
    if not folder.startswith("/") or not folder.isprintable():
        what = f'"{folder}" cannot be a folder of the file system'
        fix = "write its path from the root; for FSxLustre, /MOUNT_NAME/folder"
        yield Problem(path=path, what=what, fix=fix)


def _manifest_problems(spec: JobSpec, channel: TrainingInput, path: FieldPath) -> Iterator[Problem]:
    is_augmented = channel.s3_data_type == "AugmentedManifestFile"
    if is_augmented and not channel.attribute_names:
        what = "an augmented manifest without attribute_names"
        fix = "list the manifest's attributes that the job reads"
        yield Problem(path=(*path, "attribute_names"), what=what, fix=fix)
    if channel.attribute_names and not is_augmented:
        what = f"attribute_names are given for {channel.s3_data_type}"
        fix = "remove them, or use s3_data_type: AugmentedManifestFile"
        yield Problem(path=(*path, "attribute_names"), what=what, fix=fix)
    if channel.target_attribute_name is not None:
        what = "target_attribute_name is of AutoML jobs; a training job's channel has no such field"
        yield Problem(path=(*path, "target_attribute_name"), what=what, fix="remove it")
    mode = channel.input_mode or spec.input_mode
    if mode == "FastFile" and channel.s3_data_type != "S3Prefix":
        what = f"input mode FastFile cannot read {channel.s3_data_type}"
        fix = "use S3Prefix, or input mode File"
        yield Problem(path=path, about=(("input_mode",),), what=what, fix=fix)


def _reach_problems(spec: JobSpec) -> Iterator[Problem]:
    """Warn about a data group that no S3 channel reaches."""
    roles, _ = job_roles(spec)
    for group, role in roles.items():
        channels = spec.s3_inputs.values()  # a file system is mounted everywhere
        reached = any(group in (channel.instance_groups or roles) for channel in channels)
        if channels and role is Role.DATA and not reached:
            yield Problem(
                path=_INPUTS,
                about=(("instance_groups",), ("data_service",)),
                what=f'no channel goes to group "{group}", which prepares the data',
                fix=f'add "{group}" to a channel\'s instance_groups, unless no dataset needs it',
                is_warning=True,
            )


def _sharding_problems(spec: JobSpec, channel: TrainingInput, path: FieldPath) -> Iterator[Problem]:
    """Warn if data hosts get shards: each needs the whole channel, as it may prepare any batch."""
    roles, _ = job_roles(spec)
    readers = channel.instance_groups or tuple(roles)
    data_hosts = sum(
        group.instance_count
        for group in spec.groups
        if group.instance_group_name in readers
        and roles.get(group.instance_group_name) is Role.DATA
    )
    if channel.distribution == "ShardedByS3Key" and data_hosts > 1:
        yield Problem(
            path=(*path, "distribution"),
            about=(("instance_groups",), ("data_service",)),
            what=f"each of the {data_hosts} data hosts gets only its share of the channel, "
            "though any of them may be asked for any sample",
            fix="use FullyReplicated, unless no dataset reads this channel",
            is_warning=True,
        )
