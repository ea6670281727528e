"""Conversion of the SageMaker SDK's constructor arguments to a JobSpec."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from launcher.client.estimator.sdk_v2_types import (
    GroupLike,
    RequestPart,
    Rule,
    as_groups,
    as_hook,
    as_metrics,
    as_request_part,
    as_rules,
    as_tags,
)
from launcher.client.estimator.unknown_arguments import refusing_unknown
from launcher.client.spec import CapacityRetry, DataService, JobSpec, MetricDefinition
from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.sdk_v2_distribution import as_distribution


class JobArguments:
    """The constructor arguments of an Estimator, kept as `spec`.

    The arguments are those of SageMaker SDK v2's Estimator, with the same meaning; docs/jobs.md
    lists the differences. Objects of the `sagemaker` package are accepted by their attributes.

    Source: https://sagemaker.readthedocs.io/en/v2.257.0/api/training/estimators.html
    """

    @refusing_unknown
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
        distribution: Distribution | Mapping[str, object] | None = None,
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
        """Describe a job; nothing is sent.

        Args:
            image_uri: The training image; without one, AWS's image of
                `framework_version`, or the session's.
            role: Name or ARN of the IAM role that the job runs with.
            instance_count: Number of instances of `instance_type`.
            instance_type: Such as "ml.g5.xlarge"; "local" is this machine. Not
                together with instance_groups.
            entry_point: The training script, relative to `source_dir` if that is
                given.
            task: Instead of a script: "module:function" that returns a Task for
                Launcher's own trainer.
            source_dir: The folder that is sent; without one, the script alone is
                sent.
            dependencies: Files and folders sent beside the source, each under its
                base name.
            hyperparameters: Command-line arguments of the script, by name; they
                keep their types.
            environment: Environment variables of every host.
            instance_groups: The groups of a heterogeneous cluster, of this package
                or of `sagemaker`.
            volume_size: GB of storage per host.
            volume_kms_key: The key that encrypts the hosts' volumes.
            keep_alive_period_in_seconds: Seconds to keep the hosts for a later job
                (a warm pool).
            training_plan: ARN of the training plan whose reserved capacity the job
                uses.
            instance_placement_config: The request's InstancePlacementConfig.
            capacity_retry: Retry policy when AWS has no capacity; None fails the
                job.
            distribution: How training starts on several processes: one of ours, or
                SDK v2's dictionary.
            data_service: What the hosts of a data group serve.
            algorithm_arn: Name or ARN of a SageMaker algorithm, instead of an
                image.
            framework: The framework of `framework_version`: "pytorch" or
                "tensorflow".
            framework_version: Selects AWS's image if image_uri is not given.
            py_version: Python of AWS's image, such as "py311".
            container_entry_point: The container's command in a job without a
                script.
            container_arguments: The arguments of that command.
            container_log_level: Log level of AWS's toolkit, in jobs that start with
                it.
            training_repository_access_mode: "Vpc" for an image in a private
                registry.
            training_repository_credentials_provider_arn: ARN of the function that
                returns the registry's credentials.
            input_mode: How channels reach the hosts: "File", "FastFile" or "Pipe".
            model_uri: A model to start from; it gets a channel of its own.
            model_channel_name: The name of that channel.
            output_path: URI below which <job name>/output/ appears; the default
                bucket if None.
            output_kms_key: The key that encrypts the output.
            disable_output_compression: Upload the model as files instead of
                model.tar.gz.
            code_location: URI below which the code is uploaded; the default bucket
                if None.
            max_run: Seconds after which the platform stops the job.
            use_spot_instances: Run on spare capacity, which AWS may reclaim at any
                time.
            max_wait: Seconds from creation to end, including waiting and
                interruptions; for spot.
            checkpoint_s3_uri: Where checkpoints are stored and restored from.
            checkpoint_local_path: The checkpoints' folder on the hosts;
                /opt/ml/checkpoints if None.
            allow_restart_from_scratch: Allow spot instances without checkpoints; an
                interruption loses all work.
            max_retry_attempts: How often the platform restarts a job after an error
                of its own.
            base_job_name: The beginning of the job's name; by default it comes from
                the image or script.
            sagemaker_session: A LocalSession, an AwsSession, or a Session of
                `sagemaker`; AWS if None.
            tags: The job's tags: a mapping, or AWS's list of {"Key": ..., "Value":
                ...}.
            subnets: IDs of the VPC's subnets that the hosts join.
            security_group_ids: IDs of the hosts' security groups in that VPC.
            encrypt_inter_container_traffic: Encrypt the traffic between hosts.
            enable_network_isolation: Cut the containers off from the network
                outside the job.
            enable_session_tag_chaining: Pass the session's tags on to the job.
            metric_definitions: Metrics read from the log: ours, or AWS's {"Name":
                ..., "Regex": ...}.
            enable_sagemaker_metrics: Keep the metrics' time series in SageMaker
                too.
            experiment_config: The experiment and trial that the job belongs to.
            tensorboard_output_config: Where TensorBoard's files are uploaded.
            debugger_hook_config: SageMaker Debugger's hook; True is the default
                one, False none.
            rules: Rules of SageMaker Debugger and its profiler.
            profiler_config: The request's ProfilerConfig.
            profiler_rules: The request's ProfilerRuleConfigurations.
            disable_profiler: Switch SageMaker's profiler off.
            enable_remote_debug: Allow a shell in the containers through AWS Systems
                Manager.
            enable_infra_check: Check the hosts' hardware before training.
            extra_request: Parts of CreateTrainingJob without an argument here.

        Raises:
            TypeError: An argument is unknown; a similar one is suggested.
            SpecError: An argument of SDK v2 that Launcher does not accept, or a wrong value.
        """
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
            metric_definitions=as_metrics(metric_definitions or ()),
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
