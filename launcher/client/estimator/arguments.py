"""Conversion of the SageMaker SDK's constructor arguments to a JobSpec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from launcher.client.estimator.job_keywords import DEFAULTS, JobKeywords
from launcher.client.estimator.sdk_v2_types import as_groups, as_rules
from launcher.client.estimator.spec_attributes import CONVERSIONS, SpecAttributes
from launcher.client.estimator.unknown_arguments import refusing_unknown
from launcher.client.spec import Distribution, JobSpec

if TYPE_CHECKING:
    from typing_extensions import Unpack  # mypy brings it; in `typing` from Python 3.11


class JobArguments(SpecAttributes):
    """The constructor arguments of an Estimator, kept as `spec`.

    The arguments are those of SageMaker SDK v2's Estimator, with the same meaning; docs/jobs.md
    lists the differences. Objects of the `sagemaker` package are accepted by their attributes.

    Source: https://sagemaker.readthedocs.io/en/v2.257.0/api/training/estimators.html
    """

    @refusing_unknown(JobKeywords)
    def __init__(
        self,
        image_uri: str | None = None,
        role: str | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        *,
        entry_point: str | os.PathLike[str] = "",
        source_dir: str | os.PathLike[str] | None = None,
        hyperparameters: Mapping[str, object] | None = None,
        distribution: Distribution | Mapping[str, object] | None = None,
        framework: str | None = None,
        framework_version: str | None = None,
        py_version: str | None = None,
        transformers_version: str | None = None,
        **more: Unpack[JobKeywords],
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
            secrets: More of them, whose values are secret: by name, "env" for the
                value in this process's environment, or the ARN of a secret of AWS
                Secrets Manager.
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
            transformers_version: Selects Hugging Face's image on top of the
                framework's version.
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
            tracking: Where the metrics are written while the job is followed:
                TensorBoard, MLflow or a function.
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
        self.sagemaker_session = more.pop("sagemaker_session", None)
        self.spec = JobSpec(
            **_fields(
                image_uri=image_uri,
                role=role,
                instance_count=instance_count,
                instance_type=instance_type,
                entry_point=entry_point,
                source_dir=source_dir,
                hyperparameters=hyperparameters,
                distribution=distribution,
                framework=framework,
                framework_version=framework_version,
                py_version=py_version,
                transformers_version=transformers_version,
                **more,
            )
        )


def _fields(**given: Any) -> dict[str, Any]:
    """Return the arguments as fields of a JobSpec; None stands for the field's empty default."""
    fields = {
        name: CONVERSIONS[name](value) if name in CONVERSIONS else value
        for name, value in given.items()
        if value is not None or DEFAULTS.get(name)
    }
    groups = fields.get("instance_groups", ())
    fields["instance_groups"] = as_groups(groups, given["distribution"])
    fields["rules"], profiler_rules = as_rules(fields.get("rules", ()))
    fields["profiler_rules"] = (*fields.get("profiler_rules", ()), *profiler_rules)
    return fields
