"""The optional parts of a request that are more than a copy of one field of the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.client.spec import JobSpec
from launcher.shared import MlPaths

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


def present(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields whose value is neither None nor an empty list."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


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
