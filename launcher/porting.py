"""Objects of the `sagemaker` package, and its dictionaries, as the values of a JobSpec."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.contract import (
    TOKEN_VARIABLE,
    TOOLKIT_PREFIX,
    DataPart,
    JobDocument,
    Launch,
    Role,
    TrainerPart,
)
from launcher.described import described_options
from launcher.errors import Problem, SpecError
from launcher.spec import (
    DataParallel,
    DataService,
    FileSystemInput,
    InstanceGroup,
    Mpi,
    TrainingInput,
)
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


def constructor_arguments(
    description: Mapping[str, Any], document: JobDocument | None
) -> dict[str, Any]:
    """What an Estimator was made of, from the description of a job that it ran.

    The source folder is not among it, as only the job has a copy; nor are the inputs, which are an
    argument of `fit`, and what no request says: alternatives and capacity_retry.
    """
    resources = description.get("ResourceConfig", {})
    algorithm = description.get("AlgorithmSpecification", {})
    groups = [_described_group(g, document) for g in resources.get("InstanceGroups", [])]
    return {
        "entry_point": document.trainer.entry_point if document else "",
        "role": description.get("RoleArn"),
        "image_uri": algorithm.get("TrainingImage"),
        "algorithm_arn": algorithm.get("AlgorithmName"),
        "instance_groups": groups,
        "instance_type": resources.get("InstanceType"),
        "instance_count": resources.get("InstanceCount"),
        "distribution": document and _distribution_of(document.trainer),
        "data_service": document and document.data and _data_service_of(document.data),
        "hyperparameters": {
            name: _decoded(value)
            for name, value in description.get("HyperParameters", {}).items()
            if not name.startswith(TOOLKIT_PREFIX)
        },
        "environment": {
            name: value
            for name, value in description.get("Environment", {}).items()
            if name != TOKEN_VARIABLE
        },
        **described_options(description),
    }


def _decoded(value: str) -> Any:
    """A hyperparameter as JSON; SDK v3 and other clients send bare texts."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def _described_group(described: Mapping[str, Any], document: JobDocument | None) -> InstanceGroup:
    name = described["InstanceGroupName"]
    group = InstanceGroup(name, described["InstanceType"], described["InstanceCount"])
    part = document.commands.get(name) if document else None
    if part is None:
        return group
    return dataclasses.replace(
        group, command=part.command, ready=part.ready, lifetime=part.lifetime
    )


def _distribution_of(trainer: TrainerPart) -> DataParallel | Mpi | None:
    if trainer.launch is Launch.PYTHON:
        return None
    if trainer.launch is Launch.MPI:
        return Mpi(
            processes_per_host=trainer.processes_per_host, custom_options=trainer.mpi_options
        )
    return DataParallel(
        processes_per_host=trainer.processes_per_host, hang_timeout=trainer.hang_timeout
    )


def _data_service_of(part: DataPart) -> DataService:
    return DataService(
        datasets=part.datasets,
        workers_per_host=part.workers_per_host,
        prefetch_bytes=part.prefetch_bytes,
    )


def is_local_mode(session: Any) -> bool:
    """Whether a session of the sagemaker package is its LocalSession."""
    return bool(getattr(session, "local_mode", False))
