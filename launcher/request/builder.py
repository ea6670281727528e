"""The one place that turns a JobSpec into a CreateTrainingJob request. Pure: no I/O, no clock.

Source of the shapes: the CreateTrainingJob page of the SageMaker API reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.contract import (
    CODE_CHANNEL,
    CONTAINER_ENTRYPOINT,
    TOKEN_VARIABLE,
    CommandPart,
    DataPart,
    JobDocument,
    Launch,
    Lifetime,
    MlPaths,
    Role,
    TrainerPart,
)
from launcher.spec import DataService, InstanceGroup, JobSpec, TrainingInput, infer_roles


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What a request needs beyond the spec: names and locations, found by whoever sends it.

    code_uri: the prefix that holds launch.py, the bundle and the job document;
    output_uri: the prefix under which <job name>/output/ will appear;
    checkpoint_uri: the prefix of the checkpoints, None for a job without;
    token: the job's secret, used only when the job has more than one host;
    on_aws: whether SageMaker will judge the request, or this machine, which takes file:// URIs.
    """

    job_name: str
    role_arn: str
    image_uri: str
    code_uri: str
    output_uri: str
    token: str
    checkpoint_uri: str | None = None
    on_aws: bool = True


def build_request(spec: JobSpec, placement: Placement) -> dict[str, Any]:
    """The keyword arguments of `create_training_job` for a spec that the rules accept."""
    request: dict[str, Any] = {
        "TrainingJobName": placement.job_name,
        "AlgorithmSpecification": _algorithm(spec, placement),
        "RoleArn": placement.role_arn,
        "InputDataConfig": _channels(spec, placement),
        "OutputDataConfig": {"S3OutputPath": placement.output_uri},
        "ResourceConfig": _resources(spec),
        "StoppingCondition": _stopping_condition(spec),
        "HyperParameters": {
            name: json.dumps(value) for name, value in spec.hyperparameters.items()
        },
        "Environment": _environment(spec, placement),
    }
    request.update(_options(spec, placement))
    return request


def build_document(spec: JobSpec) -> JobDocument:
    """The job document of a spec: which group does what, and what it runs."""
    roles = infer_roles(spec.groups, spec.data_service is not None)
    return JobDocument(
        roles=roles,
        trainer=_trainer(spec, _train_group(spec, roles)),
        data=_data_part(spec),
        commands={
            group.instance_group_name: _command(group)
            for group in spec.groups
            if roles[group.instance_group_name] is Role.COMMAND
        },
        hyperparameter_types={
            name: _type_word(value) for name, value in spec.hyperparameters.items()
        },
        start_timeout=float(min(spec.max_run, (spec.data_service or DataService()).start_timeout)),
    )


def _algorithm(spec: JobSpec, placement: Placement) -> dict[str, Any]:
    algorithm: dict[str, Any] = {
        "TrainingImage": placement.image_uri,
        "TrainingInputMode": spec.input_mode,
        "ContainerEntrypoint": list(CONTAINER_ENTRYPOINT),
    }
    if spec.metric_definitions:
        algorithm["MetricDefinitions"] = [
            {"Name": metric.name, "Regex": metric.regex} for metric in spec.metric_definitions
        ]
    return algorithm


def _resources(spec: JobSpec) -> dict[str, Any]:
    if not spec.instance_groups:
        (group,) = spec.groups
        return {
            "InstanceType": group.instance_type,
            "InstanceCount": group.instance_count,
            "VolumeSizeInGB": spec.volume_size,
        }
    groups = [
        {
            "InstanceGroupName": group.instance_group_name,
            "InstanceType": group.instance_type,
            "InstanceCount": group.instance_count,
        }
        for group in spec.groups
    ]
    return {"InstanceGroups": groups, "VolumeSizeInGB": spec.volume_size}


def _channels(spec: JobSpec, placement: Placement) -> list[dict[str, Any]]:
    """The user's channels in their order, then the code; routed to groups all or none.

    SageMaker refuses a request in which some channels name groups and others do not, so once one
    does, the others name every group.
    """
    code = TrainingInput(placement.code_uri, input_mode="File")
    channels = {**spec.inputs, CODE_CHANNEL: code}
    routed = any(channel.instance_groups for channel in channels.values())
    everyone = tuple(group.instance_group_name for group in spec.groups) if routed else ()
    return [
        _channel(name, channel, channel.instance_groups or everyone)
        for name, channel in channels.items()
    ]


def _channel(name: str, channel: TrainingInput, groups: tuple[str, ...]) -> dict[str, Any]:
    source = {
        "S3DataType": channel.s3_data_type,
        "S3Uri": channel.s3_data,
        "S3DataDistributionType": channel.distribution,
        "AttributeNames": list(channel.attribute_names),
        "InstanceGroupNames": list(groups),
    }
    shuffle = channel.shuffle_config
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": _present(source)},
        **_present(
            {
                "ContentType": channel.content_type,
                "CompressionType": channel.compression,
                "RecordWrapperType": channel.record_wrapping,
                "InputMode": channel.input_mode,
                "ShuffleConfig": None if shuffle is None else {"Seed": shuffle},
            }
        ),
    }


def _environment(spec: JobSpec, placement: Placement) -> dict[str, str]:
    hosts = sum(group.instance_count for group in spec.groups)
    secret = {TOKEN_VARIABLE: placement.token} if hosts > 1 else {}
    return {**spec.environment, **secret}


def _stopping_condition(spec: JobSpec) -> dict[str, int]:
    limits = {"MaxRuntimeInSeconds": spec.max_run, "MaxWaitTimeInSeconds": spec.max_wait}
    return _present(limits)


def _options(spec: JobSpec, placement: Placement) -> Iterator[tuple[str, Any]]:
    """The fields that are sent only when they say something."""
    if spec.use_spot_instances:
        yield "EnableManagedSpotTraining", True
    if placement.checkpoint_uri is not None:
        checkpoints = {
            "S3Uri": placement.checkpoint_uri,
            "LocalPath": spec.checkpoint_local_path or str(MlPaths().checkpoints),
        }
        yield "CheckpointConfig", checkpoints
    if spec.tags:
        yield "Tags", [{"Key": key, "Value": value} for key, value in spec.tags.items()]
    if spec.subnets:
        network = {
            "Subnets": list(spec.subnets),
            "SecurityGroupIds": list(spec.security_group_ids),
        }
        yield "VpcConfig", network
    if spec.encrypt_inter_container_traffic:
        yield "EnableInterContainerTrafficEncryption", True
    if spec.enable_network_isolation:
        yield "EnableNetworkIsolation", True


def _train_group(spec: JobSpec, roles: Mapping[str, Role]) -> InstanceGroup:
    return next(g for g in spec.groups if roles[g.instance_group_name] is Role.TRAIN)


def _trainer(spec: JobSpec, group: InstanceGroup) -> TrainerPart:
    if spec.distribution is None:
        return TrainerPart(entry_point=spec.script)
    return TrainerPart(
        entry_point=spec.script,
        launch=Launch.TORCHRUN,
        processes_per_host=spec.distribution.processes_on(group.instance_type),
        hang_timeout=spec.distribution.hang_timeout,
    )


def _data_part(spec: JobSpec) -> DataPart | None:
    service = spec.data_service
    if service is None:
        return None
    return DataPart(
        datasets=service.datasets,
        workers_per_host=service.workers_per_host,
        prefetch_bytes=service.prefetch_bytes,
    )


def _command(group: InstanceGroup) -> CommandPart:
    return CommandPart(
        command=group.command, ready=group.ready, lifetime=group.lifetime or Lifetime.TRAIN
    )


def _type_word(value: object) -> str:
    """The type that the job restores: a word of the job document."""
    exact = {bool: "bool", int: "int", float: "float", str: "str"}
    return exact.get(type(value), "json")


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value != []}
