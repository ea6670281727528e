"""JobSpec: all that describes a training job, and nothing of where it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from launcher.contract import HOMOGENEOUS_GROUP, Role
from launcher.spec.distribution import DataParallel, DataService
from launcher.spec.findings import Where, dotted
from launcher.spec.groups import InstanceGroup
from launcher.spec.inputs import TrainingInput
from launcher.spec.metrics import MetricDefinition
from launcher.spec.names import names


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """One training job. Names follow the SageMaker SDK's Estimator.

    entry_point: the training script, relative to `source_dir`; or a path where that is None, and
        then the script travels alone.
    instance_groups, or instance_type and instance_count: the machines.
    distribution: None runs the script once per train host, without torchrun.
    data_service: what the hosts of a data group serve.
    volume_size: GB of storage per host. max_run: seconds after which the platform stops the job.
    use_spot_instances: spare capacity, which AWS may take back at any time; the job then starts
        again, with what it wrote to its checkpoint folder. max_wait: seconds from the creation to
        the end, waiting and interruptions included.
    checkpoint_s3_uri: where the hosts' checkpoint folder is kept, during the job and after it, and
        what it is filled from. checkpoint_local_path: that folder; None means /opt/ml/checkpoints.
    role: an IAM role's name or ARN. image_uri, output_path, code_location: None lets the session
        choose.

    Lists are accepted where tuples are declared, a text for a TrainingInput, and AWS's own
    {"Name": ..., "Regex": ...} for a MetricDefinition; they are kept as the declared types.
    """

    entry_point: str
    source_dir: str | None = None
    instance_groups: tuple[InstanceGroup, ...] = ()
    instance_type: str | None = None
    instance_count: int | None = None
    distribution: DataParallel | None = None
    data_service: DataService | None = None
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, TrainingInput] = field(default_factory=dict)
    image_uri: str | None = None
    role: str | None = None
    output_path: str | None = None
    code_location: str | None = None
    base_job_name: str | None = None
    volume_size: int = 30
    max_run: int = 24 * 60 * 60
    use_spot_instances: bool = False
    max_wait: int | None = None
    checkpoint_s3_uri: str | None = None
    checkpoint_local_path: str | None = None
    input_mode: str = "File"
    environment: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metric_definitions: tuple[MetricDefinition, ...] = ()
    subnets: tuple[str, ...] = ()
    security_group_ids: tuple[str, ...] = ()
    encrypt_inter_container_traffic: bool = False
    enable_network_isolation: bool = False
    #: Says where a field was written, for messages; no part of the job.
    where: Where = field(default=dotted, compare=False, repr=False)

    def __post_init__(self) -> None:
        plain = {
            "instance_groups": tuple(self.instance_groups),
            "hyperparameters": {key: _plain(value) for key, value in self.hyperparameters.items()},
            "inputs": {name: _channel(channel) for name, channel in self.inputs.items()},
            "environment": dict(self.environment),
            "tags": dict(self.tags),
            "metric_definitions": tuple(_metric(metric) for metric in self.metric_definitions),
            "subnets": names(self.subnets),
            "security_group_ids": names(self.security_group_ids),
        }
        for field_name, value in plain.items():
            object.__setattr__(self, field_name, value)

    @property
    def groups(self) -> tuple[InstanceGroup, ...]:
        """The machines as groups; a job without groups is one group, and it trains."""
        if self.instance_groups or self.instance_type is None:
            return self.instance_groups
        count = 1 if self.instance_count is None else self.instance_count
        return (InstanceGroup(HOMOGENEOUS_GROUP, self.instance_type, count, Role.TRAIN),)

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


def _plain(value: Any) -> Any:
    """The value as JSON would give it back, so that a round trip changes nothing."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value


def _channel(channel: TrainingInput | str) -> TrainingInput:
    return TrainingInput(channel) if isinstance(channel, str) else channel


def _metric(metric: MetricDefinition | Mapping[str, str]) -> MetricDefinition:
    if isinstance(metric, Mapping) and metric.keys() == {"Name", "Regex"}:
        return MetricDefinition(metric["Name"], metric["Regex"])
    return metric  # type: ignore[return-value]  # the rules say what is wrong with another mapping
