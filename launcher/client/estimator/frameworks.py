"""Estimators with framework-specific arguments: PyTorch and TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from launcher.client.estimator.estimator import Estimator
from launcher.client.estimator.sdk_v2_types import GroupLike, RequestPart, Rule
from launcher.client.estimator.unknown_arguments import passed_on, refusing_unknown
from launcher.client.spec import CapacityRetry, DataService, MetricDefinition
from launcher.client.spec.distributions.base import Distribution


class PyTorch(Estimator):
    """An Estimator with the argument order of SageMaker SDK v2's PyTorch; a `task` works too.

    framework_version, py_version: select the training image on AWS if image_uri is not given. A
    job on this machine runs in the Python that submits it.
    """

    @refusing_unknown
    def __init__(
        self,
        entry_point: str | os.PathLike[str] = "",
        framework_version: str | None = None,
        py_version: str | None = None,
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: Mapping[str, object] | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, object] | None = None,
        *,
        role: str | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        task: str | None = None,
        dependencies: Sequence[str | os.PathLike[str]] | None = None,
        environment: Mapping[str, str] | None = None,
        instance_groups: Sequence[GroupLike] | None = None,
        volume_size: int = 30,
        volume_kms_key: str | None = None,
        keep_alive_period_in_seconds: int | None = None,
        training_plan: str | None = None,
        instance_placement_config: Mapping[str, object] | None = None,
        capacity_retry: CapacityRetry | None = None,
        data_service: DataService | None = None,
        algorithm_arn: str | None = None,
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
        sagemaker_session: object = None,
        tags: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        subnets: Sequence[str] | None = None,
        security_group_ids: Sequence[str] | None = None,
        encrypt_inter_container_traffic: bool | None = None,
        enable_network_isolation: bool | None = None,
        enable_session_tag_chaining: bool | None = None,
        metric_definitions: Sequence[MetricDefinition | Mapping[str, str]] | None = None,
        enable_sagemaker_metrics: bool | None = None,
        experiment_config: Mapping[str, object] | None = None,
        tensorboard_output_config: RequestPart = None,
        debugger_hook_config: RequestPart | bool = None,
        rules: Sequence[Rule] | None = None,
        profiler_config: RequestPart = None,
        profiler_rules: Sequence[Mapping[str, object]] | None = None,
        disable_profiler: bool | None = None,
        enable_remote_debug: bool | None = None,
        enable_infra_check: bool | None = None,
        extra_request: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(framework="pytorch", **passed_on(locals()))


class TensorFlow(Estimator):
    """An Estimator with the arguments of SageMaker SDK v2's TensorFlow.

    framework_version, py_version: as in PyTorch. model_dir: the hyperparameter of that name, which
    the script gets only if it is given.
    """

    @refusing_unknown
    def __init__(
        self,
        py_version: str | None = None,
        framework_version: str | None = None,
        model_dir: str | bool | None = None,
        image_uri: str | None = None,
        distribution: Distribution | Mapping[str, object] | None = None,
        *,
        entry_point: str | os.PathLike[str],
        role: str | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        task: str | None = None,
        source_dir: str | os.PathLike[str] | None = None,
        dependencies: Sequence[str | os.PathLike[str]] | None = None,
        hyperparameters: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        instance_groups: Sequence[GroupLike] | None = None,
        volume_size: int = 30,
        volume_kms_key: str | None = None,
        keep_alive_period_in_seconds: int | None = None,
        training_plan: str | None = None,
        instance_placement_config: Mapping[str, object] | None = None,
        capacity_retry: CapacityRetry | None = None,
        data_service: DataService | None = None,
        algorithm_arn: str | None = None,
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
        sagemaker_session: object = None,
        tags: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        subnets: Sequence[str] | None = None,
        security_group_ids: Sequence[str] | None = None,
        encrypt_inter_container_traffic: bool | None = None,
        enable_network_isolation: bool | None = None,
        enable_session_tag_chaining: bool | None = None,
        metric_definitions: Sequence[MetricDefinition | Mapping[str, str]] | None = None,
        enable_sagemaker_metrics: bool | None = None,
        experiment_config: Mapping[str, object] | None = None,
        tensorboard_output_config: RequestPart = None,
        debugger_hook_config: RequestPart | bool = None,
        rules: Sequence[Rule] | None = None,
        profiler_config: RequestPart = None,
        profiler_rules: Sequence[Mapping[str, object]] | None = None,
        disable_profiler: bool | None = None,
        enable_remote_debug: bool | None = None,
        enable_infra_check: bool | None = None,
        extra_request: Mapping[str, object] | None = None,
    ) -> None:
        arguments = passed_on(locals(), but=("model_dir",))
        if model_dir:
            arguments["hyperparameters"] = {**(hyperparameters or {}), "model_dir": model_dir}
        super().__init__(framework="tensorflow", **arguments)
