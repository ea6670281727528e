"""Conversion of the `sagemaker` package's objects and dictionaries to values of a JobSpec."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from launcher.client.spec import (
    FileSystemInput,
    InstanceGroup,
    MetricDefinition,
    TrainingInput,
    as_distribution,
    names,
)
from launcher.errors import Problem, SpecError
from launcher.shared import Role, choice_fix, shown

#: The channel name that SDK v2 gives to an unnamed input.
DEFAULT_CHANNEL = "training"
_GROUP_FIX = 'write InstanceGroup("data_group", "ml.c5.xlarge", 2)'
_INPUT_FIX = 'write "s3://bucket/prefix", "file://FOLDER", or a TrainingInput; or leave it out'


class GroupLike(Protocol):
    """An instance group of this package or of `sagemaker`."""

    @property
    def instance_group_name(self) -> str:
        """The name of the group."""

    @property
    def instance_type(self) -> str:
        """The type of its instances."""

    @property
    def instance_count(self) -> int:
        """The number of its instances."""


class _RequestObject(Protocol):
    """A configuration object of `sagemaker`."""

    def _to_request_dict(self) -> Mapping[str, object]:
        """Return its part of the request."""


class _DebuggerRule(Protocol):
    """A Rule of `sagemaker.debugger`."""

    def to_debugger_rule_config_dict(self) -> Mapping[str, object]:
        """Return its entry of DebugRuleConfigurations."""


class _ProfilerRule(Protocol):
    """A ProfilerRule of `sagemaker.debugger`."""

    def to_profiler_rule_config_dict(self) -> Mapping[str, object]:
        """Return its entry of ProfilerRuleConfigurations."""


#: A part of the request: as a mapping, or as an object of the sagemaker package.
RequestPart = Mapping[str, object] | _RequestObject
#: Tags: a mapping, or AWS's list of {"Key": ..., "Value": ...}.
Tags = Mapping[str, str] | Sequence[Mapping[str, str]]
#: Metrics: ours, or AWS's {"Name": ..., "Regex": ...}.
Metrics = Sequence[MetricDefinition | Mapping[str, str]]
#: A path of this machine.
PathLike = str | os.PathLike[str]
#: A rule of SageMaker Debugger or its profiler.
Rule = Mapping[str, object] | _DebuggerRule | _ProfilerRule


def as_groups(groups: Sequence[GroupLike], distribution: object) -> tuple[InstanceGroup, ...]:
    """Convert instance groups of either package; SDK v2's distribution names the train group.

    Raises SpecError if that group is not in the job, and for what is no instance group.
    """
    is_one = hasattr(groups, "instance_group_name") or isinstance(groups, Mapping)
    members: tuple[Any, ...] = (groups,) if is_one else tuple(groups)
    for member in members:
        if not hasattr(member, "instance_group_name"):
            raise _error("instance_groups", f"{shown(member)} is not an instance group", _GROUP_FIX)
    named = distribution.get("instance_groups", ()) if isinstance(distribution, Mapping) else ()
    trains = set(names(named))
    known = names(members)
    if absent := sorted(trains - set(known)):
        raise SpecError(
            Problem(
                what=f"the distribution names the group {name!r}, but the job has no such group",
                where="distribution.instance_groups",
                fix=choice_fix(name, known) if known else "remove it: the job has no groups",
            )
            for name in absent
        )
    made = as_distribution(distribution) if isinstance(distribution, Mapping) else None
    is_of_toolkit = made is not None and not made.runs_launcher
    return tuple(_group(group, trains if is_of_toolkit else set()) for group in members)


def _group(group: GroupLike, trains: set[str]) -> InstanceGroup:
    """Convert a group; where AWS's toolkit starts the script, the role says which group trains."""
    ours = group if isinstance(group, InstanceGroup) else _foreign_group(group)
    if ours.role is None and ours.instance_group_name in trains:
        return dataclasses.replace(ours, role=Role.TRAIN)
    return ours


def _foreign_group(group: GroupLike) -> InstanceGroup:
    role = getattr(group, "role", None)
    return InstanceGroup(group.instance_group_name, group.instance_type, group.instance_count, role)


def as_inputs(inputs: object) -> dict[str, TrainingInput | FileSystemInput]:
    """Convert the inputs of SDK v2's fit() to channels: one input, or one per channel name."""
    if inputs is None:
        return {}
    channels = inputs if isinstance(inputs, Mapping) else {DEFAULT_CHANNEL: inputs}
    return {name: _input(value, f"inputs.{name}") for name, value in channels.items()}


def _input(value: object, where: str) -> TrainingInput | FileSystemInput:
    if isinstance(value, str):
        return TrainingInput(value)
    if isinstance(value, TrainingInput | FileSystemInput):
        return value
    config = getattr(value, "config", None)  # in the sagemaker package, a request's Channel
    if isinstance(config, Mapping) and {"S3DataSource", "FileSystemDataSource"} & set(
        config.get("DataSource", ())
    ):
        return read_channel(config)
    raise _error(where, f"{shown(value)} is not an input", _INPUT_FIX)


def read_channel(channel: Mapping[str, Any]) -> TrainingInput | FileSystemInput:
    """Convert the Channel of a request to an input."""
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


def as_tags(tags: Tags) -> dict[str, str]:
    """Convert tags given as a mapping, or as AWS's list of {"Key": ..., "Value": ...}."""
    if isinstance(tags, Mapping):
        return dict(tags)
    try:
        pairs = [(tag["Key"], tag["Value"]) for tag in tags]
    except (TypeError, KeyError) as error:
        what = f"{shown(tags)} are not tags"
        fix = 'write {"team": "vision"}, or [{"Key": "team", "Value": "vision"}]'
        raise _error("tags", what, fix) from error
    keys = [key for key, _ in pairs]
    if repeated := [key for key in dict.fromkeys(keys) if keys.count(key) > 1]:
        raise SpecError(
            Problem(
                what=f'the tag "{key}" is given {keys.count(key)} times',
                where="tags",
                fix="keep one of them",
            )
            for key in repeated
        )
    return dict(pairs)


def as_path(path: PathLike, where: str) -> str:
    """Return a path as text.

    Raises SpecError for any other object, such as an estimator of the sagemaker package.
    """
    if isinstance(path, str | os.PathLike):
        return os.fsdecode(path)
    fix = 'write "train.py", or "s3://bucket/prefix/source.tar.gz" for a source_dir'
    if hasattr(path, "entry_point") and hasattr(path, "fit"):
        fix = f"give its arguments: {type(path).__name__}(...) has the same here"
    raise _error(where, f"{shown(path)} is not a path", fix)


def as_paths(paths: PathLike | Iterable[PathLike]) -> tuple[str, ...]:
    """Return paths as texts, given as one path or several."""
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    return tuple(as_path(path, "dependencies") for path in given)


def as_metrics(metrics: Metrics) -> tuple[MetricDefinition, ...]:
    """Return metrics as a JobSpec takes them; it converts AWS's mappings, and reports others."""
    return cast("tuple[MetricDefinition, ...]", tuple(metrics))


def as_request_part(value: RequestPart) -> Mapping[str, Any]:
    """Return a part of the request, given as a mapping or as an object of the sagemaker package.

    Unset fields of such an object are omitted.
    """
    if isinstance(value, Mapping):
        return value
    if not hasattr(value, "_to_request_dict"):
        return cast("Mapping[str, Any]", value)  # the rules report it
    made = value._to_request_dict()
    return {name: item for name, item in made.items() if item is not None}


def as_hook(value: RequestPart | bool) -> Mapping[str, Any] | None:
    """Convert SDK v2's debugger_hook_config: True means the default hook, False means none."""
    if isinstance(value, bool):
        return {} if value else None
    return as_request_part(value)


def as_rules(
    rules: Sequence[Rule],
) -> tuple[tuple[Mapping[str, Any], ...], tuple[Mapping[str, Any], ...]]:
    """Split SDK v2's rules into debugger rules, which include mappings, and profiler rules."""
    given: tuple[Any, ...] = (rules,) if isinstance(rules, Mapping) else tuple(rules)
    debugger = [rule for rule in given if not hasattr(rule, "to_profiler_rule_config_dict")]
    profiler = [rule for rule in given if hasattr(rule, "to_profiler_rule_config_dict")]
    return (
        tuple(
            rule.to_debugger_rule_config_dict()
            if hasattr(rule, "to_debugger_rule_config_dict")
            else rule  # the rules of a job report what is no mapping
            for rule in debugger
        ),
        tuple(rule.to_profiler_rule_config_dict() for rule in profiler),
    )


def _error(where: str, what: str, fix: str) -> SpecError:
    return SpecError([Problem(what=what, where=where, fix=fix)])
