"""The optional parts of a request, sent only if the job sets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.spec import JobSpec
from launcher.shared import MlPaths


def build_options(
    spec: JobSpec, output_uri: str, checkpoint_uri: str | None
) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each optional top-level field of the request."""
    if spec.use_spot_instances:
        yield "EnableManagedSpotTraining", True
    if checkpoint_uri is not None:
        checkpoints = {
            "S3Uri": checkpoint_uri,
            "LocalPath": spec.checkpoint_local_path or str(MlPaths().checkpoints),
        }
        yield "CheckpointConfig", checkpoints
    if spec.max_retry_attempts is not None:
        yield "RetryStrategy", {"MaximumRetryAttempts": spec.max_retry_attempts}
    if spec.tags:
        yield "Tags", [{"Key": key, "Value": value} for key, value in spec.tags.items()]
    yield from _protection(spec)
    yield from _observation(spec, output_uri)


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields whose value is neither None nor an empty list."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def _protection(spec: JobSpec) -> Iterator[tuple[str, Any]]:
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
    if (chaining := spec.enable_session_tag_chaining) is not None:
        yield "SessionChainingConfig", {"EnableSessionTagChaining": chaining}


def _observation(spec: JobSpec, output_uri: str) -> Iterator[tuple[str, Any]]:
    if spec.experiment_config:
        yield "ExperimentConfig", dict(spec.experiment_config)
    if spec.tensorboard_output_config is not None:
        yield "TensorBoardOutputConfig", dict(spec.tensorboard_output_config)
    place = {"S3OutputPath": output_uri}
    if spec.debugger_hook_config is not None or spec.rules:
        yield "DebugHookConfig", {**place, **(spec.debugger_hook_config or {})}
    if spec.rules:
        yield "DebugRuleConfigurations", [dict(rule) for rule in spec.rules]
    profiler = spec.profiler_config or {}
    if spec.disable_profiler or profiler.get("DisableProfiler"):
        yield "ProfilerConfig", {"DisableProfiler": True}
    elif spec.profiler_config is not None or spec.profiler_rules:
        yield "ProfilerConfig", {**place, **profiler}
    if spec.profiler_rules:
        yield "ProfilerRuleConfigurations", [dict(rule) for rule in spec.profiler_rules]
    if spec.enable_remote_debug is not None:
        yield "RemoteDebugConfig", {"EnableRemoteDebug": spec.enable_remote_debug}
    if spec.enable_infra_check is not None:
        yield "InfraCheckConfig", {"EnableInfraCheck": spec.enable_infra_check}
