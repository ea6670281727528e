"""The builder of CreateTrainingJob requests from a JobSpec. Pure: no I/O, no clock.

Source of the shapes: the CreateTrainingJob page of the SageMaker API reference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from launcher.client.catalogue import PriceList
from launcher.client.request.channel_routing import build_channels
from launcher.client.request.extra import add_extra
from launcher.client.request.request_options import options_of_request
from launcher.client.request.request_paths import fill_paths
from launcher.client.request.toolkit import build_hyperparameters, describe_script
from launcher.client.request.validation import find_violations
from launcher.client.request.validation.violations import RequestJudge
from launcher.client.spec import (
    METRICS_LIMIT,
    DataService,
    InstanceGroup,
    JobSpec,
    job_roles,
    leading_group,
)
from launcher.errors import SpecError
from launcher.shared import (
    CONTAINER_ENTRYPOINT,
    TOKEN_VARIABLE,
    WAIT_METRIC,
    WAIT_PATTERN,
    CommandPart,
    DataPart,
    JobDocument,
    Lifetime,
    Role,
    ScriptPart,
    TrainerPart,
    secret_variables_of,
)

if TYPE_CHECKING:
    from launcher.shared import PartitionFile


@dataclass(frozen=True, kw_only=True)
class JobLocation:
    """The names and locations that a request needs beyond the spec, chosen by its sender.

    code_uri: the prefix that holds launch.py, the bundle and the job document.
    image_uri: the image, or the name of an algorithm for a spec that has one.
    output_uri: the prefix under which <job name>/output/ appears.
    checkpoint_uri: the prefix of the checkpoints; None for a job without them.
    token: the job's secret, used only if the job has more than one host.
    region: the job's AWS region, or "" if unknown; only AWS's toolkit needs it.
    judge: returns the request's violations of its platform's limits; default: SageMaker's.
    """

    job_name: str
    role_arn: str
    image_uri: str
    code_uri: str
    output_uri: str
    token: str = field(repr=False)
    checkpoint_uri: str | None = None
    region: str = ""
    judge: RequestJudge = field(default=find_violations, repr=False, compare=False)


def build_request(spec: JobSpec, placement: JobLocation) -> dict[str, Any]:
    """Build the keyword arguments of `create_training_job` for a spec that passes the rules.

    Raises SpecError if `extra_request` contradicts the job.
    """
    made = {
        **_algorithm(spec, placement),
        **_machines(spec),
        **options_of_request(spec, placement.output_uri, placement.checkpoint_uri),
        "role": placement.role_arn,
        "inputs": build_channels(spec, placement.code_uri),
        "output_path": placement.output_uri,
        "disable_output_compression": "NONE" if spec.disable_output_compression else None,
        "hyperparameters": _hyperparameters(spec, placement),
        "environment": _environment(spec, placement),
    }
    request = {"TrainingJobName": placement.job_name, **fill_paths(spec, made)}
    return add_extra(request, spec)


def _hyperparameters(spec: JobSpec, placement: JobLocation) -> dict[str, str]:
    toolkits = build_hyperparameters(
        spec,
        job_name=placement.job_name,
        region=placement.region,
        code_uri=placement.code_uri,
        output_uri=placement.output_uri,
    )
    described = describe_script(spec, job_name=placement.job_name)
    values = {**spec.hyperparameters, **toolkits, **described}
    encode = json.dumps if spec.runs_script else str  # as SDK v2
    return {name: encode(value) for name, value in values.items()}


def build_document(
    spec: JobSpec,
    partition: PartitionFile | None = None,
    prices: PriceList = PriceList(),  # noqa: B008 - it is frozen
) -> JobDocument:
    """Build the job document of a spec: the role of each group, and what it runs.

    partition: the content of the spec's partition_file. prices: for script groups, whose hosts
        may wait for each other.
    """
    if partition is not None and spec.distribution is not None:
        spec = spec.replace(distribution=spec.distribution.completed(partition))
    roles, unclear = job_roles(spec)
    if unclear:
        raise SpecError(unclear)
    return JobDocument(
        roles=roles,
        trainer=_trainer(spec, roles),
        data=_data_part(spec),
        commands={
            group.instance_group_name: _command(group)
            for group in spec.groups
            if group.command and roles[group.instance_group_name] is Role.COMMAND
        },
        scripts={
            group.instance_group_name: _script(group, prices)
            for group in spec.groups
            if roles[group.instance_group_name] is Role.SCRIPT
        },
        hyperparameter_types={
            name: _type_word(value) for name, value in spec.hyperparameters.items()
        },
        requirements={
            group.instance_group_name: group.requirements
            for group in spec.groups
            if group.requirements is not None
        },
        start_timeout=float(min(spec.max_run, (spec.data_service or DataService()).start_timeout)),
    )


def _algorithm(spec: JobSpec, placement: JobLocation) -> dict[str, Any]:
    """Return what runs: Launcher, the user's command, or the image's own."""
    command = CONTAINER_ENTRYPOINT if spec.starts_launcher else spec.container_entry_point
    is_image = spec.algorithm_arn is None
    return {
        "image_uri": placement.image_uri if is_image else None,
        "algorithm_arn": None if is_image else placement.image_uri,
        "container_entry_point": list(command),
        "metric_definitions": _metrics(spec),
    }


def _metrics(spec: JobSpec) -> list[dict[str, str]]:
    """Return the user's metrics and, where Launcher starts the job, its wait for data.

    A definition of the same name takes its place, and so does the last of as many as AWS allows.
    """
    given = [{"Name": each.name, "Regex": each.regex} for each in spec.metric_definitions]
    has_name = any(each["Name"] == WAIT_METRIC for each in given)
    if spec.starts_launcher and not has_name and len(given) < METRICS_LIMIT:
        given.append({"Name": WAIT_METRIC, "Regex": WAIT_PATTERN})
    return given


def _machines(spec: JobSpec) -> dict[str, Any]:
    if not spec.instance_groups:
        (group,) = spec.groups
        return {"instance_type": group.instance_type, "instance_count": group.instance_count}
    groups = [
        {
            "InstanceGroupName": group.instance_group_name,
            "InstanceType": group.instance_type,
            "InstanceCount": group.instance_count,
        }
        for group in spec.groups
    ]
    kept = spec.keep_alive_period_in_seconds or None  # none are kept for 0 seconds
    of_one_type = dict.fromkeys(("instance_type", "instance_count"))
    return {"instance_groups": groups, "keep_alive_period_in_seconds": kept, **of_one_type}


def _environment(spec: JobSpec, placement: JobLocation) -> dict[str, str]:
    secret = {TOKEN_VARIABLE: placement.token} if spec.has_token else {}
    return {**spec.environment, **secret_variables_of(spec.secrets), **secret}


def _trainer(spec: JobSpec, roles: Mapping[str, Role]) -> TrainerPart:
    group = leading_group(spec, roles)
    assert group is not None  # checked by the rules
    part = (
        TrainerPart(entry_point=spec.script)
        if spec.distribution is None
        else spec.distribution.trainer_part(spec, group.instance_type)
    )
    is_script = roles[group.instance_group_name] is Role.SCRIPT
    return replace(part, group=group.instance_group_name) if is_script else part


def _data_part(spec: JobSpec) -> DataPart | None:
    service = spec.data_service
    if service is None:
        return None
    return DataPart(
        datasets=tuple(service.datasets),
        workers_per_host=service.workers_per_host,
        prefetch_bytes=service.prefetch_bytes,
        local_workers=service.local_workers,
        checksums=service.checksums,
        metrics_port=service.metrics_port,
        engine=service.engine,
    )


def _command(group: InstanceGroup) -> CommandPart:
    return CommandPart(
        command=tuple(group.command),
        ready=group.ready,
        lifetime=group.lifetime or Lifetime.TRAIN,
        pass_hyperparameters=group.pass_hyperparameters,
    )


def _script(group: InstanceGroup, prices: PriceList) -> ScriptPart:
    price = prices.find(group.instance_type, None)
    return ScriptPart(
        ready=group.ready,
        lifetime=group.lifetime or Lifetime.OWN,
        dollars_per_hour=price.per_hour if price else None,
    )


def _type_word(value: object) -> str:
    """Return the job document's word for the type that the job restores."""
    exact = {bool: "bool", int: "int", float: "float", str: "str"}
    return exact.get(type(value), "json")
