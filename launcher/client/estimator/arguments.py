"""Conversion of the SageMaker SDK's constructor arguments to a JobSpec."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.client.estimator.sdk_v2_types import (
    as_groups,
    as_hook,
    as_request_part,
    as_rules,
    as_tags,
)
from launcher.client.spec import CapacityRetry, DataService, JobSpec
from launcher.client.spec.distribution import Distribution
from launcher.client.spec.sdk_v2_distribution import as_distribution
from launcher.client.spec.spec_findings import did_you_mean
from launcher.errors import Problem, SpecError

#: Arguments of SDK v2 that Launcher does not accept, with the alternatives.
NOT_TAKEN = {
    "git_config": "clone the repository (git clone --branch BRANCH REPO), and give its folder as "
    "source_dir",
    "compiler_config": "AWS's training compiler is at its end; use torch.compile in the script",
    "training_recipe": "recipes are SageMaker HyperPod's; give the script and its hyperparameters",
    "recipe_overrides": "recipes are SageMaker HyperPod's; give the script and its hyperparameters",
}


class JobArguments:
    """The constructor arguments of an Estimator, kept as `spec`.

    The arguments are those of SageMaker SDK v2's Estimator, with the same meaning; docs/jobs.md
    lists the differences. Objects of the `sagemaker` package are accepted by their attributes.
    Additional arguments: `task` (what Launcher's own trainer runs instead of a script),
    `data_service` (what the hosts of a data group serve), `framework` (the framework of
    `framework_version`), `capacity_retry`, `allow_restart_from_scratch`, `profiler_rules` and
    `extra_request`.

    Source: https://sagemaker.readthedocs.io/en/v2.257.0/api/training/estimators.html
    """

    def __init__(
        self,
        image_uri: str | None = None,
        role: str | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        *,
        entry_point: str | os.PathLike[str] = "",
        task: str | None = None,
        source_dir: str | os.PathLike[str] | None = None,
        dependencies: Sequence[Any] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        instance_groups: Sequence[Any] | None = None,
        volume_size: int = 30,
        volume_kms_key: str | None = None,
        keep_alive_period_in_seconds: int | None = None,
        training_plan: str | None = None,
        instance_placement_config: Mapping[str, Any] | None = None,
        capacity_retry: CapacityRetry | None = None,
        distribution: Distribution | Mapping[str, Any] | None = None,
        data_service: DataService | None = None,
        algorithm_arn: str | None = None,
        framework: str | None = None,
        framework_version: str | None = None,
        py_version: str | None = None,
        container_entry_point: Sequence[str] | None = None,
        container_arguments: Sequence[str] | None = None,
        container_log_level: int = 20,
        training_repository_access_mode: str | None = None,
        training_repository_credentials_provider_arn: str | None = None,
        input_mode: str = "File",
        model_uri: str | None = None,
        model_channel_name: str = "model",
        output_path: str | None = None,
        output_kms_key: str | None = None,
        disable_output_compression: bool = False,
        code_location: str | None = None,
        max_run: int = 24 * 60 * 60,
        use_spot_instances: bool = False,
        max_wait: int | None = None,
        checkpoint_s3_uri: str | None = None,
        checkpoint_local_path: str | None = None,
        allow_restart_from_scratch: bool = False,
        max_retry_attempts: int | None = None,
        base_job_name: str | None = None,
        sagemaker_session: Any = None,
        tags: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        subnets: Sequence[str] | None = None,
        security_group_ids: Sequence[str] | None = None,
        encrypt_inter_container_traffic: bool | None = None,
        enable_network_isolation: bool | None = None,
        enable_session_tag_chaining: bool | None = None,
        metric_definitions: Sequence[Any] | None = None,
        enable_sagemaker_metrics: bool | None = None,
        experiment_config: Mapping[str, Any] | None = None,
        tensorboard_output_config: Any = None,
        debugger_hook_config: Any = None,
        rules: Sequence[Any] | None = None,
        profiler_config: Any = None,
        profiler_rules: Sequence[Mapping[str, Any]] | None = None,
        disable_profiler: bool | None = None,
        enable_remote_debug: bool | None = None,
        enable_infra_check: bool | None = None,
        extra_request: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        _refuse(others)
        debugger_rules, more_profiler_rules = as_rules(rules or ())
        self.sagemaker_session = sagemaker_session
        self.spec = JobSpec(
            entry_point=str(entry_point or ""),
            task=task,
            source_dir=None if source_dir is None else str(source_dir),
            dependencies=tuple(map(str, dependencies or ())),
            hyperparameters=hyperparameters or {},
            environment=environment or {},
            instance_groups=as_groups(instance_groups or (), distribution),
            instance_type=instance_type,
            instance_count=instance_count,
            volume_size=volume_size,
            volume_kms_key=volume_kms_key,
            keep_alive_period_in_seconds=keep_alive_period_in_seconds,
            training_plan=training_plan,
            instance_placement_config=instance_placement_config,
            capacity_retry=capacity_retry,
            distribution=as_distribution(distribution),
            data_service=data_service,
            image_uri=image_uri,
            algorithm_arn=algorithm_arn,
            framework=framework,
            framework_version=framework_version,
            py_version=py_version,
            container_entry_point=tuple(container_entry_point or ()),
            container_arguments=tuple(container_arguments or ()),
            container_log_level=container_log_level,
            training_repository_access_mode=training_repository_access_mode,
            training_repository_credentials_provider_arn=(
                training_repository_credentials_provider_arn
            ),
            input_mode=input_mode,
            model_uri=model_uri,
            model_channel_name=model_channel_name,
            output_path=output_path,
            output_kms_key=output_kms_key,
            disable_output_compression=disable_output_compression,
            code_location=code_location,
            max_run=max_run,
            use_spot_instances=use_spot_instances,
            max_wait=max_wait,
            checkpoint_s3_uri=checkpoint_s3_uri,
            checkpoint_local_path=checkpoint_local_path,
            allow_restart_from_scratch=allow_restart_from_scratch,
            max_retry_attempts=max_retry_attempts,
            role=role,
            base_job_name=base_job_name,
            tags=as_tags(tags or {}),
            subnets=tuple(subnets or ()),
            security_group_ids=tuple(security_group_ids or ()),
            encrypt_inter_container_traffic=encrypt_inter_container_traffic or False,
            enable_network_isolation=enable_network_isolation or False,
            enable_session_tag_chaining=enable_session_tag_chaining,
            metric_definitions=tuple(metric_definitions or ()),
            enable_sagemaker_metrics=enable_sagemaker_metrics,
            experiment_config=experiment_config,
            tensorboard_output_config=as_request_part(tensorboard_output_config),
            debugger_hook_config=as_hook(debugger_hook_config),
            rules=debugger_rules,
            profiler_config=as_request_part(profiler_config),
            profiler_rules=(*(profiler_rules or ()), *more_profiler_rules),
            disable_profiler=disable_profiler or False,
            enable_remote_debug=enable_remote_debug,
            enable_infra_check=enable_infra_check,
            extra_request=extra_request or {},
        )

    def set_hyperparameters(self, **hyperparameters: Any) -> None:
        """Set hyperparameters, replacing those with the same names."""
        values = {**self.spec.hyperparameters, **hyperparameters}
        self.spec = self.spec.replace(hyperparameters=values)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters, with their types."""
        return dict(self.spec.hyperparameters)


def _refuse(others: Mapping[str, Any]) -> None:
    """Raise TypeError for unknown arguments, and SpecError for unsupported ones of SDK v2."""
    unknown = [name for name in others if name not in NOT_TAKEN]
    if unknown:
        near = did_you_mean(unknown[0], (part.name for part in dataclasses.fields(JobSpec)))
        hint = f"; did you mean {near!r}?" if near else ""
        raise TypeError(f"{unknown[0]!r} is not an argument of an Estimator{hint}")
    given = [name for name, value in others.items() if value]
    if given:
        raise SpecError(
            Problem(what=f"Launcher takes no {name}", where=name, fix=NOT_TAKEN[name])
            for name in given
        )
