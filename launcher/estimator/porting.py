"""Objects of the `sagemaker` package, and its dictionaries, as the values of a JobSpec."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.contract import Role
from launcher.errors import Problem, SpecError
from launcher.spec import FileSystemInput, InstanceGroup, TrainingInput
from launcher.spec.findings import choice_fix
from launcher.spec.names import names

#: The channel that SDK v2 gives to an input without a name.
DEFAULT_CHANNEL = "training"


def as_groups(groups: Sequence[Any], distribution: Any) -> tuple[InstanceGroup, ...]:
    """Instance groups of either package; SDK v2's distribution names the one that trains.

    Raises SpecError where that is no group of the job.
    """
    named = distribution.get("instance_groups", ()) if isinstance(distribution, Mapping) else ()
    trains = set(names(named))
    known = names(groups)
    if absent := sorted(trains - set(known)):
        raise SpecError(
            Problem(
                what=f"the distribution is to start on the group {name!r}, which the job has not",
                where="distribution.instance_groups",
                fix=choice_fix(name, known) if known else "remove it: the job has no groups",
            )
            for name in absent
        )
    return tuple(_group(group, trains) for group in groups)


def _group(group: Any, trains: set[str]) -> InstanceGroup:
    ours = group if isinstance(group, InstanceGroup) else _foreign_group(group)
    if ours.role is None and ours.instance_group_name in trains:
        return dataclasses.replace(ours, role=Role.TRAIN)
    return ours


def _foreign_group(group: Any) -> InstanceGroup:
    role = getattr(group, "role", None)
    return InstanceGroup(group.instance_group_name, group.instance_type, group.instance_count, role)


def as_inputs(inputs: Any) -> dict[str, TrainingInput | FileSystemInput]:
    """Channels from what SDK v2's fit() takes: one input, or one per channel name."""
    if inputs is None:
        return {}
    channels = inputs if isinstance(inputs, Mapping) else {DEFAULT_CHANNEL: inputs}
    return {name: _input(value) for name, value in channels.items()}


def _input(value: Any) -> TrainingInput | FileSystemInput:
    if isinstance(value, str):
        return TrainingInput(value)
    if isinstance(value, TrainingInput | FileSystemInput):
        return value
    return read_channel(value.config)  # where the sagemaker package keeps a request's Channel


def read_channel(channel: Mapping[str, Any]) -> TrainingInput | FileSystemInput:
    """An input from the Channel of a request."""
    if mounted := channel["DataSource"].get("FileSystemDataSource"):
        return FileSystemInput(
            mounted["FileSystemId"],
            mounted["FileSystemType"],
            mounted["DirectoryPath"],
            mounted["FileSystemAccessMode"],
            channel.get("ContentType"),
        )
    return _s3_input(channel)


def _s3_input(channel: Mapping[str, Any]) -> TrainingInput:
    source = channel["DataSource"]["S3DataSource"]
    return TrainingInput(
        source["S3Uri"],
        distribution=source.get("S3DataDistributionType", "FullyReplicated"),
        compression=channel.get("CompressionType"),
        content_type=channel.get("ContentType"),
        record_wrapping=channel.get("RecordWrapperType"),
        s3_data_type=source.get("S3DataType", "S3Prefix"),
        instance_groups=tuple(source.get("InstanceGroupNames", ())),
        input_mode=channel.get("InputMode"),
        attribute_names=tuple(source.get("AttributeNames", ())),
        target_attribute_name=channel.get("TargetAttributeName"),
        shuffle_config=channel.get("ShuffleConfig", {}).get("Seed"),
    )


def as_tags(tags: Mapping[str, str] | Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Tags as a mapping, or as AWS's list of {"Key": ..., "Value": ...}."""
    if isinstance(tags, Mapping):
        return dict(tags)
    return {tag["Key"]: tag["Value"] for tag in tags}


def as_request_part(value: Any) -> Mapping[str, Any] | None:
    """A part of the request: as it is there, or an object of the sagemaker package that makes it.

    What such an object leaves empty is left out.
    """
    if value is None or isinstance(value, Mapping):
        return value
    made: Mapping[str, Any] = value._to_request_dict()
    return {name: item for name, item in made.items() if item is not None}


def as_hook(value: Any) -> Mapping[str, Any] | None:
    """SDK v2's debugger_hook_config: True asks for the hook as it is by default, False for none."""
    if isinstance(value, bool):
        return {} if value else None
    return as_request_part(value)


def as_rules(
    rules: Sequence[Any],
) -> tuple[tuple[Mapping[str, Any], ...], tuple[Mapping[str, Any], ...]]:
    """SDK v2's list of both kinds of rules, debugger's first; a mapping is one of those."""
    debugger = [rule for rule in rules if not hasattr(rule, "to_profiler_rule_config_dict")]
    profiler = [rule for rule in rules if hasattr(rule, "to_profiler_rule_config_dict")]
    return (
        tuple(
            rule if isinstance(rule, Mapping) else rule.to_debugger_rule_config_dict()
            for rule in debugger
        ),
        tuple(rule.to_profiler_rule_config_dict() for rule in profiler),
    )
