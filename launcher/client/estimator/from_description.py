"""Reconstruction of an Estimator's arguments from the description of a job that it ran."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from launcher.client.request import MODEL_CONTENT, read_paths
from launcher.client.spec import (
    DataService,
    Distribution,
    InstanceGroup,
    JobSpec,
    distribution_from,
    job_roles,
    limited_to,
)
from launcher.shared import (
    CODE_CHANNEL,
    CONTAINER_ENTRYPOINT,
    SECRET_PREFIX,
    TOKEN_VARIABLE,
    TOOLKIT_PREFIX,
    JobDocument,
    Lifetime,
    Role,
    TrainerPart,
    is_wait_metric,
    secret_sources,
)

_EMPTY = JobSpec()


def constructor_arguments(
    description: Mapping[str, Any],
    document: JobDocument | None,
    model_channel: str = "model",
) -> dict[str, Any]:
    """Return an Estimator's arguments from the description of a job that it ran.

    model_channel: the name of the channel of the model_uri.

    Missing are the source folder, of which only the job has a copy; the inputs, which are an
    argument of `fit`; and alternatives, retry and tracking, which are not part of a
    request.
    """
    resources = description.get("ResourceConfig", {})
    groups = [_described_group(g, document) for g in resources.get("InstanceGroups", [])]
    options = read_paths(description)
    options.pop("inputs", None)
    metrics = [m for m in options.pop("metric_definitions", ()) if not is_wait_metric(m)]
    if metrics:
        options["metric_definitions"] = metrics
    command = tuple(options.get("container_entry_point", ()))
    is_spot = options.get("use_spot_instances", False)
    return {
        **options,
        **_of_document(document, groups, options.get("max_run", _EMPTY.max_run)),
        "hyperparameters": _described_hyperparameters(
            options.get("hyperparameters", {}), is_script=document is not None
        ),
        "environment": {
            name: value
            for name, value in options.get("environment", {}).items()
            if name != TOKEN_VARIABLE and not name.startswith(SECRET_PREFIX)
        },
        "secrets": secret_sources(options.get("environment", {})),
        **_model(description, model_channel),
        "container_entry_point": () if command == CONTAINER_ENTRYPOINT else command,
        "output_kms_key": options.get("output_kms_key") or None,  # AWS describes none as ""
        "disable_output_compression": options.get("disable_output_compression") == "NONE",
        "allow_restart_from_scratch": is_spot and "checkpoint_s3_uri" not in options,
    }


def _of_document(
    document: JobDocument | None, groups: list[InstanceGroup], max_run: int
) -> dict[str, object]:
    """Return the arguments that the job document holds; empty ones for a job without it."""
    if document is None:
        return {"entry_point": "", "instance_groups": groups}
    spec = JobSpec(
        entry_point=document.trainer.entry_point,
        task=document.trainer.task,
        instance_groups=groups,
        distribution=_distribution_of(document.trainer),
        data_service=_data_service_of(document, max_run),
    )
    return {
        "entry_point": spec.entry_point,
        "task": spec.task,
        "instance_groups": _groups_with_roles(spec, document.roles),
        "distribution": spec.distribution,
        "data_service": spec.data_service,
    }


def _groups_with_roles(spec: JobSpec, roles: Mapping[str, Role]) -> list[InstanceGroup]:
    """Return the groups, each with its role where the job alone does not show all of them."""
    if job_roles(spec)[0] == roles:
        return list(spec.instance_groups)
    return [
        dataclasses.replace(group, role=role)
        if group.role is None
        and (role := roles.get(group.instance_group_name)) in (Role.TRAIN, Role.DATA)
        else group
        for group in spec.instance_groups
    ]


def _described_hyperparameters(sent: Mapping[str, str], *, is_script: bool) -> dict[str, Any]:
    """Return the user's hyperparameters: decoded for a script, texts as sent for other programs."""
    is_script = is_script or any(name.startswith(TOOLKIT_PREFIX) for name in sent)
    own = {name: text for name, text in sent.items() if not name.startswith(TOOLKIT_PREFIX)}
    return {name: _decoded(text) if is_script else text for name, text in own.items()}


def _decoded(value: str) -> Any:
    """Decode a hyperparameter from JSON; SDK v3 and other clients send plain strings."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def _described_group(described: Mapping[str, Any], document: JobDocument | None) -> InstanceGroup:
    name = described["InstanceGroupName"]
    group = InstanceGroup(name, described["InstanceType"], described["InstanceCount"])
    if document is None:
        return group
    group = dataclasses.replace(group, requirements=document.requirements.get(name))
    if script := document.scripts.get(name):
        lifetime = Lifetime.TRAIN if script.lifetime is Lifetime.TRAIN else None
        return dataclasses.replace(group, role=Role.SCRIPT, ready=script.ready, lifetime=lifetime)
    part = document.commands.get(name)
    if part is None:
        return group
    return dataclasses.replace(
        group,
        command=part.command,
        ready=part.ready,
        lifetime=part.lifetime,
        pass_hyperparameters=part.pass_hyperparameters,
    )


def _distribution_of(trainer: TrainerPart) -> Distribution | None:
    distribution = distribution_from(trainer)
    if distribution is None or trainer.group is None:
        return distribution
    return limited_to(distribution, (trainer.group,))


def _data_service_of(document: JobDocument, max_run: int) -> DataService | None:
    part, usual = document.data, DataService().start_timeout
    if part is None:
        return None
    is_usual = document.start_timeout == min(max_run, usual)
    return DataService(
        start_timeout=usual if is_usual else int(document.start_timeout),
        datasets=part.datasets,
        workers_per_host=part.workers_per_host,
        prefetch_bytes=part.prefetch_bytes,
        local_workers=part.local_workers,
        checksums=part.checksums,
        metrics_port=part.metrics_port,
        engine=part.engine,
    )


def _model(description: Mapping[str, Any], named: str) -> dict[str, str]:
    """Find the channel of a model_uri: by its name, or the content type that SDK v2 gives it."""
    channels = [
        channel
        for channel in description.get("InputDataConfig", ())
        if channel["ChannelName"] != CODE_CHANNEL and "S3DataSource" in channel["DataSource"]
    ]
    found = [channel for channel in channels if channel["ChannelName"] == named]
    found += [channel for channel in channels if channel.get("ContentType") == MODEL_CONTENT]
    if not found:
        return {}
    uri = found[0]["DataSource"]["S3DataSource"]["S3Uri"]
    return {"model_uri": uri, "model_channel_name": found[0]["ChannelName"]}
