"""JobSpec: all that describes a training job, and nothing of where it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from launcher.contract import HOMOGENEOUS_GROUP, Role
from launcher.spec.distribution import DataService, Distribution, Toolkit
from launcher.spec.findings import Where, dotted
from launcher.spec.forms import kept_forms
from launcher.spec.groups import CapacityRetry, InstanceGroup
from launcher.spec.inputs import FileSystemInput, TrainingInput
from launcher.spec.metrics import MetricDefinition

#: The fields that hold a URI; channels have theirs.
LOCATIONS = ("output_path", "code_location", "checkpoint_s3_uri", "model_uri")


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One training job. Names and meanings follow the SageMaker SDK v2's Estimator.

    Lists are accepted where tuples are declared, a text for a TrainingInput, and AWS's own
    {"Name": ..., "Regex": ...} for a MetricDefinition; they are kept as the declared types.
    Mappings of Any have the shape that CreateTrainingJob gives to their part of the request.
    """

    # Code: the training script, relative to `source_dir`; or a path where that is None, and then
    # the script travels alone. Without a script the image starts its own program.
    entry_point: str = ""
    #: Instead of a script: "module:function" of `source_dir`, which makes a Task for our trainer.
    task: str | None = None
    source_dir: str | None = None
    #: Files and folders that travel beside the source, under their last names.
    dependencies: tuple[str, ...] = ()

    # Machines: groups, or one type and count.
    instance_groups: tuple[InstanceGroup, ...] = ()
    instance_type: str | None = None
    instance_count: int | None = None

    # What runs on them; without a distribution the script runs once per train host.
    distribution: Distribution | None = None
    data_service: DataService | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    # The hosts' storage, and where they come from.
    #: GB per host, and the KMS key that it is encrypted with.
    volume_size: int = 30
    volume_kms_key: str | None = None
    #: Seconds for which the hosts are kept for a next job (a warm pool).
    keep_alive_period_in_seconds: int | None = None
    training_plan: str | None = None
    instance_placement_config: Mapping[str, Any] | None = None
    #: What to do when AWS has no capacity; None: the job fails.
    capacity_retry: CapacityRetry | None = None

    # The image: its URI, or an algorithm, or the framework's own; None lets the session choose.
    image_uri: str | None = None
    algorithm_arn: str | None = None
    framework: str | None = None
    framework_version: str | None = None
    py_version: str | None = None
    #: The container's command, in a job without a script: nothing of Launcher starts.
    container_entry_point: tuple[str, ...] = ()
    container_arguments: tuple[str, ...] = ()
    #: The level of AWS's toolkit, where a job starts with that.
    container_log_level: int = 20
    training_repository_access_mode: str | None = None
    training_repository_credentials_provider_arn: str | None = None

    # Data that comes in and goes out.
    inputs: Mapping[str, TrainingInput | FileSystemInput] = field(default_factory=dict)
    input_mode: str = "File"
    #: A model to start from, in a channel of its own.
    model_uri: str | None = None
    model_channel_name: str = "model"
    output_path: str | None = None
    output_kms_key: str | None = None
    disable_output_compression: bool = False
    code_location: str | None = None

    # Life: seconds after which the platform stops the job; spare capacity, which AWS may take back
    # at any time; seconds from the creation to the end, waiting and interruptions included.
    max_run: int = 24 * 60 * 60
    use_spot_instances: bool = False
    max_wait: int | None = None
    #: Where the hosts' checkpoint folder is kept and filled from; None: /opt/ml/checkpoints.
    checkpoint_s3_uri: str | None = None
    checkpoint_local_path: str | None = None
    #: Spot instances without checkpoints: every interruption loses all work.
    allow_restart_from_scratch: bool = False
    #: How often the platform starts a job again that failed by its own fault.
    max_retry_attempts: int | None = None

    # Who and where: an IAM role's name or ARN; the job's own network.
    role: str | None = None
    base_job_name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    subnets: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    encrypt_inter_container_traffic: bool = False
    enable_network_isolation: bool = False
    enable_session_tag_chaining: bool | None = None

    # What is watched; nothing of it is sent unless it is asked for.
    metric_definitions: tuple[MetricDefinition, ...] = ()
    enable_sagemaker_metrics: bool | None = None
    experiment_config: Mapping[str, Any] | None = None
    tensorboard_output_config: Mapping[str, Any] | None = None
    #: Without an S3OutputPath it is the job's output.
    debugger_hook_config: Mapping[str, Any] | None = None
    rules: tuple[Mapping[str, Any], ...] = ()
    profiler_config: Mapping[str, Any] | None = None
    profiler_rules: tuple[Mapping[str, Any], ...] = ()
    disable_profiler: bool = False
    enable_remote_debug: bool | None = None
    enable_infra_check: bool | None = None

    #: Parts of CreateTrainingJob that have no field here; they add to the request.
    extra_request: Mapping[str, Any] = field(default_factory=dict)
    #: Says where a field was written, for messages; no part of the job.
    where: Where = field(default=dotted, compare=False, repr=False)

    def __post_init__(self) -> None:
        for field_name, value in kept_forms(self).items():
            object.__setattr__(self, field_name, value)

    @property
    def groups(self) -> tuple[InstanceGroup, ...]:
        """The machines as groups; a job without groups is one group, and it trains."""
        if self.instance_groups or self.instance_type is None:
            return self.instance_groups
        count = 1 if self.instance_count is None else self.instance_count
        return (InstanceGroup(HOMOGENEOUS_GROUP, self.instance_type, count, Role.TRAIN),)

    @property
    def starts_launcher(self) -> bool:
        """Whether Launcher runs in the container: not without code, nor under AWS's toolkit."""
        return bool(self.entry_point or self.task) and not isinstance(self.distribution, Toolkit)

    @property
    def s3_inputs(self) -> Mapping[str, TrainingInput]:
        """The channels that are no file systems."""
        return {n: c for n, c in self.inputs.items() if isinstance(c, TrainingInput)}

    @property
    def uris(self) -> dict[str, str]:
        """Every location that the job names, by its field: "inputs.train.s3_data" for a channel."""
        places = {field: getattr(self, field) for field in LOCATIONS}
        channels = {f"inputs.{name}.s3_data": c.s3_data for name, c in self.s3_inputs.items()}
        return {field: uri for field, uri in {**places, **channels}.items() if uri}

    @property
    def is_local(self) -> bool:
        """Whether every host is this machine's (instance types "local" and "local_gpu")."""
        return bool(self.groups) and all(group.is_local for group in self.groups)

    @property
    def script(self) -> str:
        """The training script below the code folder of a host."""
        return self.entry_point if self.source_dir is not None else PurePath(self.entry_point).name

    def to_yaml(self) -> str:
        """The job as YAML, without what has its default; `from_yaml` gives an equal one back."""
        from launcher.spec.document import write_document  # yaml is loaded on first use

        return write_document(self)

    @classmethod
    def from_yaml(cls, text_or_path: str | Path, changes: Iterable[str] = ()) -> JobSpec:
        """Read a job from YAML: a Path, a text that ends in .yaml or .yml, or the YAML itself.

        In a file, `source_dir` and file:// URIs are relative to the file's folder. Each change is
        "hyperparameters.epochs=1" or "instance_groups.data_group.instance_count=3".

        Raises SpecError with every problem of the document, each with its line; and then, with
        them, all that is wrong with the job it describes.
        """
        from launcher.spec.document import read_document  # yaml is loaded on first use

        document = read_document(text_or_path, changes)
        document.raise_problems()
        return document.spec

    def replace(self, **changes: Any) -> JobSpec:
        """A copy with other values of some fields."""
        return dataclasses.replace(self, **changes)
