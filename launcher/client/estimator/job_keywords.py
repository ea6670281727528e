"""The keyword arguments that Estimator, PyTorch and TensorFlow share, each written once.

Type checkers and IDEs read them from these TypedDicts; help() and `inspect.signature` show them
with the defaults of a JobSpec.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from launcher.client.estimator.sdk_v2_types import GroupLike, RequestPart, Rule
from launcher.client.spec import CapacityRetry, DataService, JobSpec, MetricDefinition, Tracking

#: The default of each field of a job; fields that are empty collections by default have none.
DEFAULTS: Mapping[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(JobSpec)
    if field.default is not dataclasses.MISSING
}


class JobKeywords(TypedDict, total=False):
    """Keyword-only arguments of every estimator; `Estimator.__init__` documents each of them."""

    task: str | None
    dependencies: Sequence[str | os.PathLike[str]] | None
    environment: Mapping[str, str] | None
    secrets: Mapping[str, str] | None
    instance_groups: Sequence[GroupLike] | None
    volume_size: int
    volume_kms_key: str | None
    keep_alive_period_in_seconds: int | None
    training_plan: str | None
    instance_placement_config: Mapping[str, object] | None
    capacity_retry: CapacityRetry | None
    data_service: DataService | None
    algorithm_arn: str | None
    container_entry_point: Sequence[str] | None
    container_arguments: Sequence[str] | None
    container_log_level: int
    training_repository_access_mode: str | None
    training_repository_credentials_provider_arn: str | None
    input_mode: str
    model_uri: str | None
    model_channel_name: str
    output_path: str | None
    output_kms_key: str | None
    disable_output_compression: bool
    code_location: str | None
    max_run: int
    use_spot_instances: bool
    max_wait: int | None
    checkpoint_s3_uri: str | None
    checkpoint_local_path: str | None
    allow_restart_from_scratch: bool
    max_retry_attempts: int | None
    base_job_name: str | None
    sagemaker_session: object
    tags: Mapping[str, str] | Sequence[Mapping[str, str]] | None
    subnets: Sequence[str] | None
    security_group_ids: Sequence[str] | None
    encrypt_inter_container_traffic: bool | None
    enable_network_isolation: bool | None
    enable_session_tag_chaining: bool | None
    metric_definitions: Sequence[MetricDefinition | Mapping[str, str]] | None
    tracking: Tracking | None
    enable_sagemaker_metrics: bool | None
    experiment_config: Mapping[str, object] | None
    tensorboard_output_config: RequestPart
    debugger_hook_config: RequestPart | bool
    rules: Sequence[Rule] | None
    profiler_config: RequestPart
    profiler_rules: Sequence[Mapping[str, object]] | None
    disable_profiler: bool | None
    enable_remote_debug: bool | None
    enable_infra_check: bool | None
    extra_request: Mapping[str, object] | None


class FrameworkKeywords(JobKeywords, total=False):
    """Keyword-only arguments of the estimator of a framework."""

    role: str | None
    instance_count: int | None
    instance_type: str | None


def full_signature(
    constructor: Callable[..., None], keywords: type[Mapping[str, object]]
) -> inspect.Signature:
    """Return a constructor's signature, in which each keyword of `keywords` is a parameter."""
    own = inspect.signature(constructor)
    named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    shared = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=DEFAULTS.get(name),
            annotation=getattr(annotation, "__forward_arg__", annotation),
        )
        for name, annotation in keywords.__annotations__.items()
    ]
    return own.replace(parameters=[*named, *shared])
