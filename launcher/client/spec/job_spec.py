"""JobSpec: the description of a training job, independent of where it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from launcher.client.spec.coerce import kept_forms
from launcher.client.spec.data_service import DataService
from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.groups import CapacityRetry, InstanceGroup
from launcher.client.spec.metric_definition import MetricDefinition
from launcher.client.spec.tracking import Tracking
from launcher.client.spec.training_inputs import FileSystemInput, TrainingInput
from launcher.errors import Where, dotted
from launcher.shared import HOMOGENEOUS_GROUP, Role

#: The fields that hold a URI; channels hold their own.
_LOCATIONS = ("output_path", "code_location", "checkpoint_s3_uri", "model_uri")


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One training job; names and meanings follow the Estimator of SageMaker SDK v2.

    Any sequence becomes a tuple; accepted too are a string for a TrainingInput, and AWS's own
    {"Name": ..., "Regex": ...} for a MetricDefinition. All are converted to the declared types.
    A Mapping[str, Any] has the shape of its part of the CreateTrainingJob request.
    """

    # Code: the training script, relative to `source_dir`. Where that is None, a path, and only the
    # script itself is sent. Without a script the image starts its own program.
    entry_point: str = ""
    #: Instead of a script: "module:function" in `source_dir` that returns a Task for our trainer.
    task: str | None = None
    #: A folder, or the s3:// URI of a tar.gz of one.
    source_dir: str | None = None
    #: Files and folders sent beside the source, each under its base name.
    dependencies: Sequence[str] = ()

    # Machines: groups, or one type and count.
    instance_groups: Sequence[InstanceGroup] = ()
    instance_type: str | None = None
    instance_count: int | None = None

    # Execution: without a distribution the script runs once per train host.
    distribution: Distribution | None = None
    data_service: DataService | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Variables with secret values, by name: "env", the value in the sender's environment, or the
    #: ARN of a secret of AWS Secrets Manager. On AWS only ARNs are accepted.
    secrets: Mapping[str, str] = field(default_factory=dict)

    # Storage and provisioning of the hosts.
    #: GB per host; volume_kms_key is the key that encrypts the volume.
    volume_size: int = 30
    volume_kms_key: str | None = None
    #: Seconds to keep the hosts for a later job (a warm pool).
    keep_alive_period_in_seconds: int | None = None
    training_plan: str | None = None
    instance_placement_config: Mapping[str, Any] | None = None
    #: Retry policy when AWS has no capacity; None fails the job.
    capacity_retry: CapacityRetry | None = None

    # The image: a URI, an algorithm, or AWS's image of a framework version. If all are None, the
    # session chooses.
    image_uri: str | None = None
    algorithm_arn: str | None = None
    framework: str | None = None
    framework_version: str | None = None
    py_version: str | None = None
    #: The image is Hugging Face's, on top of the framework's version.
    transformers_version: str | None = None
    #: The container's command in a job without a script; Launcher then does not start.
    container_entry_point: Sequence[str] = ()
    container_arguments: Sequence[str] = ()
    #: The log level of AWS's toolkit, in jobs that start with it.
    container_log_level: int = 20
    training_repository_access_mode: str | None = None
    training_repository_credentials_provider_arn: str | None = None

    # Inputs and outputs.
    inputs: Mapping[str, TrainingInput | FileSystemInput] = field(default_factory=dict)
    input_mode: str = "File"
    #: A model to start from; it gets a channel of its own.
    model_uri: str | None = None
    model_channel_name: str = "model"
    output_path: str | None = None
    output_kms_key: str | None = None
    disable_output_compression: bool = False
    code_location: str | None = None

    # Time limits and interruptions. max_run: seconds after which the platform stops the job.
    # use_spot_instances: spare capacity, which AWS may reclaim at any time. max_wait: seconds from
    # creation to end, including waiting and interruptions.
    max_run: int = 24 * 60 * 60
    use_spot_instances: bool = False
    max_wait: int | None = None
    #: Where checkpoints are stored and restored from. checkpoint_local_path is the folder on the
    #: hosts; None means /opt/ml/checkpoints.
    checkpoint_s3_uri: str | None = None
    checkpoint_local_path: str | None = None
    #: Allow spot instances without checkpoints, so that every interruption loses all work.
    allow_restart_from_scratch: bool = False
    #: How often the platform restarts a job that failed because of an error of its own.
    max_retry_attempts: int | None = None

    # Identity and network. role: name or ARN of an IAM role.
    role: str | None = None
    base_job_name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    subnets: Sequence[str] = ()
    security_group_ids: Sequence[str] = ()
    #: None: as a file of defaults says, else False.
    encrypt_inter_container_traffic: bool | None = None
    enable_network_isolation: bool | None = None
    enable_session_tag_chaining: bool | None = None

    # Monitoring; sent only if set.
    metric_definitions: Sequence[MetricDefinition] = ()
    #: Places for the metrics; whoever follows the job on this machine writes there.
    tracking: Tracking | None = None
    enable_sagemaker_metrics: bool | None = None
    experiment_config: Mapping[str, Any] | None = None
    tensorboard_output_config: Mapping[str, Any] | None = None
    #: Without an S3OutputPath, the job's output path is used.
    debugger_hook_config: Mapping[str, Any] | None = None
    rules: Sequence[Mapping[str, Any]] = ()
    profiler_config: Mapping[str, Any] | None = None
    profiler_rules: Sequence[Mapping[str, Any]] = ()
    disable_profiler: bool | None = None  # as encrypt_inter_container_traffic
    enable_remote_debug: bool | None = None
    enable_infra_check: bool | None = None

    #: Parts of CreateTrainingJob without a field here; they are added to the request.
    extra_request: Mapping[str, Any] = field(default_factory=dict)
    #: Formats where a field was written, for messages; not part of the job.
    where: Where = field(default=dotted, compare=False, repr=False)

    def __post_init__(self) -> None:
        for field_name, value in kept_forms(self).items():
            object.__setattr__(self, field_name, value)

    def _repr_html_(self) -> str:
        from launcher.client.spec.spec_page import spec_html  # only notebooks need it

        return spec_html(self)

    @property
    def groups(self) -> tuple[InstanceGroup, ...]:
        """The machines as groups; a job without groups has one, which trains."""
        if self.instance_groups or self.instance_type is None:
            return tuple(self.instance_groups)
        count = 1 if self.instance_count is None else self.instance_count
        return (InstanceGroup(HOMOGENEOUS_GROUP, self.instance_type, count, Role.TRAIN),)

    @property
    def starts_launcher(self) -> bool:
        """True if Launcher runs in the container: the job has code, and AWS's toolkit no part."""
        return self.runs_script and not self.starts_toolkit

    @property
    def starts_toolkit(self) -> bool:
        """True if AWS's toolkit starts the job's processes."""
        # Before the rules have seen it, the distribution may be of any type.
        return not getattr(self.distribution, "runs_launcher", True)

    @property
    def toolkit_strategies(self) -> Mapping[str, Any] | None:
        """SDK v2's strategies for AWS's toolkit; None unless the toolkit starts the job."""
        found: Mapping[str, Any] | None = getattr(self.distribution, "toolkit_strategies", None)
        return found

    @property
    def runs_script(self) -> bool:
        """True if the job has a script or task, whose arguments are decoded from JSON."""
        return bool(self.entry_point or self.task)

    @property
    def has_code_channel(self) -> bool:
        """True if a channel of the request brings the code to the hosts."""
        return self.starts_launcher or (self.starts_toolkit and bool(self.enable_network_isolation))

    @property
    def has_token(self) -> bool:
        """True if the job has a token of its own, with which its hosts know each other."""
        return self.starts_launcher and sum(group.instance_count for group in self.groups) > 1

    @property
    def has_remote_source(self) -> bool:
        """True if the source is an archive in S3 instead of a folder."""
        return (self.source_dir or "").startswith("s3://")

    @property
    def s3_inputs(self) -> Mapping[str, TrainingInput]:
        """The channels other than file systems."""
        return {n: c for n, c in self.inputs.items() if isinstance(c, TrainingInput)}

    @property
    def locations(self) -> dict[str, str]:
        """The URIs of the job outside of its channels, by field."""
        return {field: uri for field in _LOCATIONS if (uri := getattr(self, field))}

    @property
    def uris(self) -> dict[str, str]:
        """Every URI in the job, by field; a channel's field is like "inputs.train.s3_data"."""
        channels = {f"inputs.{name}.s3_data": c.s3_data for name, c in self.s3_inputs.items()}
        return {**self.locations, **{field: uri for field, uri in channels.items() if uri}}

    @property
    def is_local(self) -> bool:
        """True if every host runs on this machine (instance types "local" and "local_gpu")."""
        return bool(self.groups) and all(group.is_local for group in self.groups)

    @property
    def script(self) -> str:
        """The path of the training script below a host's code folder."""
        return self.entry_point if self.source_dir is not None else PurePath(self.entry_point).name

    def to_yaml(self) -> str:
        """Return the job as YAML without default values; `from_yaml` reads back an equal job."""
        from launcher.client.spec.document_builder import write_document  # loads yaml

        return write_document(self)

    @classmethod
    def from_yaml(cls, text_or_path: str | Path, changes: Iterable[str] = ()) -> JobSpec:
        """Read a job from YAML: a Path, a string ending in .yaml or .yml, or the YAML itself.

        In a file, `source_dir` and file:// URIs are relative to the file's folder. Each change is
        "hyperparameters.epochs=1" or "instance_groups.data_group.instance_count=3".

        Raises SpecError listing every problem of the document with its line, together with all
        problems of the job that it describes.
        """
        from launcher.client.spec.document_builder import read_document  # loads yaml

        document = read_document(cls, text_or_path, changes)
        document.raise_problems()
        return document.spec

    def replace(self, **changes: Any) -> JobSpec:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)
