"""Rules for the channels of a request, and the groups they are routed to.

Source: the API pages of Channel and DataSource; the message of `go_to_groups_all_or_none` is AWS's
own. The rules that names exist and differ are inferred: AWS's answer to such requests is not
public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.request.validation.violations import Violation, constraint_message
from launcher.errors import FieldPath
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from launcher.shared import ChannelFields, TrainingJobRequest

_SOURCES = ("S3DataSource", "FileSystemDataSource", "DatasetSource")


def have_one_source(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channels without exactly one source of data."""
    for path, channel in _channels(request):
        source = channel.get("DataSource", {})
        named = [name for name in _SOURCES if name in source]
        if "DataSource" in channel and len(named) != 1:
            here = (*path, "DataSource")
            yield Violation(
                path=here,
                what=f"the channel has {' and '.join(named) or 'no source of data'}",
                fix=f"write one of {', '.join(_SOURCES)}",
                aws_message=constraint_message(here, source, "Member must have exactly one source"),
            )


def have_different_names(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channel names that are used twice."""
    seen = Counter[str]()
    for path, channel in _channels(request):
        name = channel.get("ChannelName", "")
        seen[name] += 1
        if seen[name] == 2:
            yield Violation(
                path=(*path, "ChannelName"),
                what=f'two channels are called "{name}"',
                fix="give one of them another name",
                aws_message=f"Duplicate channel name: {name}",
            )


def go_to_groups_all_or_none(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channels without groups if others name groups.

    A file system's channel cannot name groups, so it cannot be combined with channels that do.
    """
    routed = {
        channel.get("ChannelName", ""): (path, bool(_groups_of(channel)))
        for path, channel in _channels(request)
    }
    sources = {c.get("ChannelName", ""): c.get("DataSource", {}) for _, c in _channels(request)}
    some = [name for name, (_, is_routed) in routed.items() if is_routed]
    others = {name: path for name, (path, is_routed) in routed.items() if not is_routed}
    if not some or not others:
        return
    message = (
        f"Some channels have assigned instance groups: [{', '.join(some)}] while others not: "
        f"[{', '.join(others)}]"
    )
    for name, path in others.items():
        yield Violation(
            path=(*path, "DataSource"),
            what=f'the channel "{name}" names no instance groups, and "{some[0]}" does',
            fix="remove InstanceGroupNames of all channels: a file system has none"
            if "FileSystemDataSource" in sources[name]
            else "write InstanceGroupNames in all channels or in none",
            aws_message=message,
        )


def go_to_groups_that_exist(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channels routed to groups that are not in the job."""
    groups = request.get("ResourceConfig", {}).get("InstanceGroups", ())
    known = [group.get("InstanceGroupName", "") for group in groups]
    for path, channel in _channels(request):
        for index, name in enumerate(_groups_of(channel)):
            if name in known:
                continue
            here = (*path, "DataSource", "S3DataSource", "InstanceGroupNames", index)
            yield Violation(
                path=here,
                what=f'the channel goes to group "{name}", which is not in the job',
                about=(("ResourceConfig", "InstanceGroups"),),
                fix=choice_fix(name, known) if known else "remove it: the job has no groups",
                aws_message=f"Instance group {name} of channel {channel.get('ChannelName')} is not "
                f"in InstanceGroups: [{', '.join(known)}]",
            )


def reach_file_systems_in_a_vpc(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find file systems in a job without a VpcConfig."""
    for path, channel in _channels(request):
        here = (*path, "DataSource", "FileSystemDataSource")
        if here[-1] in channel.get("DataSource", {}) and "VpcConfig" not in request:
            yield Violation(
                path=here,
                what="a file system is in a VPC, but the job is in none",
                fix="write VpcConfig from which it can be reached",
                aws_message="VpcConfig must be specified when a channel has a FileSystemDataSource",
            )


def _channels(request: TrainingJobRequest) -> Iterator[tuple[FieldPath, ChannelFields]]:
    for index, channel in enumerate(request.get("InputDataConfig", ())):
        yield ("InputDataConfig", index), channel


def _groups_of(channel: ChannelFields) -> tuple[str, ...]:
    source = channel.get("DataSource", {}).get("S3DataSource", {})
    return tuple(source.get("InstanceGroupNames", ()))
