"""Input channels: the data that a job reads, and the groups that read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.client.spec.spec_names import names


@dataclass(frozen=True)
class ShuffleConfig:
    """The seed with which SageMaker shuffles a channel's objects, as SDK v2 writes it."""

    seed: int


@dataclass(frozen=True)
class TrainingInput:
    """One S3 or local channel, with the arguments of the SageMaker SDK's TrainingInput.

    s3_data: "s3://bucket/prefix", or "file:///folder" for a job on this machine.
    distribution: FullyReplicated (every host gets all) or ShardedByS3Key (one host per object).
    instance_groups: the groups that get the channel, or their names; empty means every group.
    input_mode: File, FastFile or Pipe; None means the job's input mode.
    shuffle_config: the seed with which SageMaker shuffles the channel's objects, or a ShuffleConfig
        of this package or of `sagemaker`; kept as the seed.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html
    """

    s3_data: str
    distribution: str = "FullyReplicated"
    compression: str | None = None
    content_type: str | None = None
    record_wrapping: str | None = None
    s3_data_type: str = "S3Prefix"
    instance_groups: Sequence[str] = ()
    input_mode: str | None = None
    attribute_names: Sequence[str] = ()
    target_attribute_name: str | None = None
    shuffle_config: int | ShuffleConfig | None = None

    def __post_init__(self) -> None:
        for name in ("distribution", "s3_data_type"):
            if getattr(self, name) is None:  # SDK v2's for the default
                object.__setattr__(self, name, getattr(type(self), name))
        seed = getattr(self.shuffle_config, "seed", self.shuffle_config)
        object.__setattr__(self, "shuffle_config", seed)
        object.__setattr__(self, "instance_groups", names(self.instance_groups))
        object.__setattr__(self, "attribute_names", names(self.attribute_names))


@dataclass(frozen=True)
class FileSystemInput:
    """One channel from a file system in the job's VPC, with the SageMaker SDK's arguments.

    file_system_type: EFS or FSxLustre.
    directory_path: absolute; for FSxLustre it includes the mount name.
    file_system_access_mode: ro or rw.

    The channel cannot be routed to groups: all hosts mount it.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html
    """

    file_system_id: str
    file_system_type: str
    directory_path: str
    file_system_access_mode: str = "ro"
    content_type: str | None = None
