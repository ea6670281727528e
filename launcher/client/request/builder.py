"""The builder of CreateTrainingJob requests from a JobSpec. Pure: no I/O, no clock.

`extra_request` only adds to the request: mappings are merged, and the items of a list are appended.
A value that contradicts the job is an error, so that the code channel, the container's entry point
and the token are never overwritten silently.

Source of the shapes: the CreateTrainingJob page of the SageMaker API reference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from launcher.client.request.request_paths import fill_paths
from launcher.client.request.toolkit import build_hyperparameters, describe_script, source_uri
from launcher.client.request.validation.request_check import find_violations
from launcher.client.request.validation.violations import RequestJudge
from launcher.client.spec import (
    METRICS_LIMIT,
    FileSystemInput,
    JobSpec,
    TrainingInput,
)
from launcher.errors import FieldPath, Problem, SpecError, dotted
from launcher.shared import (
    CODE_CHANNEL,
    CONTAINER_ENTRYPOINT,
    TOKEN_VARIABLE,
    WAIT_METRIC,
    WAIT_PATTERN,
    MlPaths,
    secret_variables_of,
    shown,
)

if TYPE_CHECKING:
    pass


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
        "environment": _environment(spec, placement) or (None if spec.is_serverless else {}),
    }
    made |= dict.fromkeys(spec.chosen_fields)
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
    if spec.is_serverless:
        return {}
    if not spec.instance_groups:
        (group,) = spec.groups
        if spec.instance_preferences:
            has_counts = any("InstanceCount" in each for each in spec.instance_preferences)
            count = spec.instance_count if has_counts else group.instance_count
            return {"instance_type": spec.instance_type, "instance_count": count}
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


#: The first versions of AWS's images that report metrics over time (SDK v2's constructors).
_WITH_METRICS = {"pytorch": (1, 3), "tensorflow": (1, 15)}


def options_of_request(
    spec: JobSpec, output_uri: str, checkpoint_uri: str | None
) -> dict[str, Any]:
    """Return the optional parts by the field that they belong to; None is not sent.

    The prefix of checkpoints ends with a slash: without one, a job ASHA-1 is reported to restore
    those of ASHA-10 too (https://github.com/awslabs/syne-tune/issues/363; unverified).
    """
    local = spec.checkpoint_local_path or str(MlPaths().checkpoints)
    return {
        "checkpoint_s3_uri": None if checkpoint_uri is None else f"{checkpoint_uri.rstrip('/')}/",
        "checkpoint_local_path": None if checkpoint_uri is None else local,
        "tags": [{"Key": key, "Value": value} for key, value in spec.tags.items()],
        "experiment_config": dict(spec.experiment_config) if spec.experiment_config else None,
        "encrypt_inter_container_traffic": spec.encrypt_inter_container_traffic or None,
        "enable_network_isolation": spec.enable_network_isolation or None,
        "enable_sagemaker_metrics": _metrics_over_time(spec),
        **_observation(spec, {"S3OutputPath": output_uri}),
    }


def _metrics_over_time(spec: JobSpec) -> bool | None:
    """Return whether SageMaker keeps the metrics over time: for AWS's own images, as in SDK v2."""
    oldest = _WITH_METRICS.get(spec.framework or "")
    if spec.enable_sagemaker_metrics is not None or spec.framework_version is None or not oldest:
        return spec.enable_sagemaker_metrics
    version = tuple(int(part) for part in spec.framework_version.split(".")[:2])
    return True if version >= oldest else None


def _observation(spec: JobSpec, place: Mapping[str, str]) -> dict[str, Any]:
    """Return Debugger's hook, with its rules' or its own output, and the profiler's settings."""
    hook, profiler = spec.debugger_hook_config, spec.profiler_config
    made: dict[str, Any] = {"debugger_hook_config": None, "profiler_config": None}
    if hook is not None or spec.rules:
        made["debugger_hook_config"] = {**place, **(hook or {})}
    if spec.disable_profiler or (profiler or {}).get("DisableProfiler"):
        made["profiler_config"] = {"DisableProfiler": True}
    elif profiler is not None or spec.profiler_rules:
        made["profiler_config"] = {**place, **(profiler or {})}
    return made


#: Lists that nothing can be appended to.
_WHOLE = (
    ("AlgorithmSpecification", "ContainerEntrypoint"),
    ("AlgorithmSpecification", "ContainerArguments"),
    ("ResourceConfig", "InstanceGroups"),
)


#: The field of an item by which AWS tells the items of a list apart.
_NAMES = ("Key", "ChannelName", "Name", "RuleConfigurationName")


def add_extra(request: Mapping[str, object], spec: JobSpec) -> dict[str, Any]:
    """Merge the job's `extra_request` into the request; raise SpecError with all contradictions."""
    problems = [
        Problem(
            what=f"{dotted(path)} is set to {shown(extra)}, but the job sets another value",
            where=spec.where(("extra_request", *path)),
            fix="extra_request only adds: remove it there, or change the job's own field",
        )
        for path, extra in _contradictions(request, spec.extra_request, ())
    ]
    if problems:
        raise SpecError(problems)
    return dict(_merged(request, spec.extra_request))


def _contradictions(
    ours: object, extra: object, path: FieldPath
) -> Iterator[tuple[FieldPath, Any]]:
    if isinstance(ours, Mapping) and isinstance(extra, Mapping):
        for name in extra:
            if name in ours:
                yield from _contradictions(ours[name], extra[name], (*path, name))
    elif ours != extra and (path in _WHOLE or not _are_lists(ours, extra)):
        yield path, extra
    elif isinstance(ours, list) and isinstance(extra, list):
        known = {_name_of(item): item for item in ours}
        for index, item in enumerate(extra):
            name = _name_of(item)
            if name is not None and known.get(name, item) != item:
                yield (*path, index), item


def _merged(ours: Any, extra: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(extra, Mapping):
        both = {name: _merged(ours[name], extra[name]) for name in ours.keys() & extra.keys()}
        return {**ours, **extra, **both}
    if not _are_lists(ours, extra):
        return extra
    return [*ours, *(item for item in extra if _name_of(item) is None or item not in ours)]


def _name_of(item: object) -> str | None:
    """Return the name of an item of a list; None if it has none."""
    if not isinstance(item, Mapping):
        return None
    return next((item[field] for field in _NAMES if isinstance(item.get(field), str)), None)


def _are_lists(ours: object, extra: object) -> bool:
    return isinstance(ours, list) and isinstance(extra, list)


#: The content type that SDK v2 gives the channel of a `model_uri`.
MODEL_CONTENT = "application/x-sagemaker-model"


def build_channels(spec: JobSpec, code_uri: str) -> list[dict[str, Any]]:
    """Build the user's channels in their order, then those of the model and the code.

    SageMaker rejects a request in which only some channels name groups. So if one channel does,
    the others name every group.
    """
    channels = {**spec.inputs, **_own_channels(spec, code_uri)}
    routed = any(channel.instance_groups for channel in spec.s3_inputs.values())
    everyone = tuple(group.instance_group_name for group in spec.groups) if routed else ()
    return [
        _file_system(name, channel)
        if isinstance(channel, FileSystemInput)
        else _channel(name, channel, channel.instance_groups or everyone)
        for name, channel in channels.items()
    ]


def _own_channels(spec: JobSpec, code_uri: str) -> dict[str, TrainingInput]:
    channels = {}
    if spec.model_uri is not None:
        model = TrainingInput(spec.model_uri, content_type=MODEL_CONTENT, input_mode="File")
        channels[spec.model_channel_name] = model
    if spec.starts_launcher:
        channels[CODE_CHANNEL] = TrainingInput(code_uri, input_mode="File")
    elif spec.has_code_channel:
        mode = None if spec.input_mode == "File" else "File"
        channels[CODE_CHANNEL] = TrainingInput(source_uri(spec, code_uri), input_mode=mode)
    return channels


def _channel(name: str, channel: TrainingInput, groups: Sequence[str]) -> dict[str, Any]:
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


def _file_system(name: str, channel: FileSystemInput) -> dict[str, Any]:
    source = {
        "FileSystemId": channel.file_system_id,
        "FileSystemType": channel.file_system_type,
        "DirectoryPath": channel.directory_path,
        "FileSystemAccessMode": channel.file_system_access_mode,
    }
    return {
        "ChannelName": name,
        "DataSource": {"FileSystemDataSource": source},
        **_present({"ContentType": channel.content_type}),
    }


def _present(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields whose value is neither None nor an empty list."""
    return {name: value for name, value in fields.items() if value is not None and value != []}
