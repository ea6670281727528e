"""The shapes of SageMaker's training jobs: what is read of a request, a description and a list.

Only fields that are read by name are here; a document may have more. Source: the API reference,
CreateTrainingJob, DescribeTrainingJob and ListTrainingJobs. For annotations only: nothing checks
these shapes at run time.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict


class GroupFields(TypedDict, total=False):
    """InstanceGroup."""

    InstanceGroupName: str
    InstanceType: str
    InstanceCount: int


class PreferenceFields(TypedDict, total=False):
    """InstancePreference."""

    InstanceType: str
    InstanceCount: int


class ResourceFields(TypedDict, total=False):
    """ResourceConfig; the Selected fields are in answers only."""

    InstanceType: str
    InstanceCount: int
    InstanceGroups: list[GroupFields]
    InstancePreferences: list[PreferenceFields]
    InstancePlacementConfig: object
    KeepAlivePeriodInSeconds: int
    TrainingPlanArn: str
    VolumeKmsKeyId: str
    VolumeSizeInGB: int
    SelectedInstanceType: str
    SelectedInstanceCount: int


class S3SourceFields(TypedDict, total=False):
    """S3DataSource."""

    S3Uri: str
    S3DataType: str
    S3DataDistributionType: str
    InstanceGroupNames: list[str]


class FileSystemFields(TypedDict, total=False):
    """FileSystemDataSource."""

    FileSystemId: str
    FileSystemType: str
    FileSystemAccessMode: str
    DirectoryPath: str


class DataSourceFields(TypedDict, total=False):
    """DataSource."""

    S3DataSource: S3SourceFields
    FileSystemDataSource: FileSystemFields


class ShuffleFields(TypedDict, total=False):
    """ShuffleConfig."""

    Seed: int


class ChannelFields(TypedDict, total=False):
    """Channel."""

    ChannelName: str
    ContentType: str
    CompressionType: str
    RecordWrapperType: str
    InputMode: str
    ShuffleConfig: ShuffleFields
    DataSource: DataSourceFields


class MetricFields(TypedDict):
    """MetricDefinition."""

    Name: str
    Regex: str


class AlgorithmFields(TypedDict, total=False):
    """AlgorithmSpecification."""

    AlgorithmName: str
    TrainingImage: str
    TrainingInputMode: str
    ContainerEntrypoint: list[str]
    ContainerArguments: list[str]
    MetricDefinitions: list[MetricFields]


class OutputFields(TypedDict, total=False):
    """OutputDataConfig."""

    S3OutputPath: str
    KmsKeyId: str
    CompressionType: str


class CheckpointFields(TypedDict, total=False):
    """CheckpointConfig."""

    S3Uri: str
    LocalPath: str


class LimitFields(TypedDict, total=False):
    """StoppingCondition."""

    MaxRuntimeInSeconds: int
    MaxWaitTimeInSeconds: int


class RetryFields(TypedDict, total=False):
    """RetryStrategy."""

    MaximumRetryAttempts: int


class VpcFields(TypedDict, total=False):
    """VpcConfig."""

    Subnets: list[str]
    SecurityGroupIds: list[str]


class TagFields(TypedDict):
    """Tag."""

    Key: str
    Value: str


class TrainingJobRequest(TypedDict, total=False):
    """A CreateTrainingJob request."""

    TrainingJobName: str
    RoleArn: str
    AlgorithmSpecification: AlgorithmFields
    ResourceConfig: ResourceFields
    InputDataConfig: list[ChannelFields]
    OutputDataConfig: OutputFields
    StoppingCondition: LimitFields
    CheckpointConfig: CheckpointFields
    RetryStrategy: RetryFields
    HyperParameters: dict[str, str]
    Environment: dict[str, str]
    VpcConfig: VpcFields
    Tags: list[TagFields]
    EnableManagedSpotTraining: bool
    EnableNetworkIsolation: bool
    EnableInterContainerTrafficEncryption: bool
    ServerlessJobConfig: object
    ModelPackageConfig: object


class ModelFields(TypedDict, total=False):
    """ModelArtifacts."""

    S3ModelArtifacts: str


class TransitionFields(TypedDict, total=False):
    """SecondaryStatusTransition."""

    Status: str
    StartTime: datetime
    EndTime: datetime
    StatusMessage: str


class WarmPoolFields(TypedDict, total=False):
    """WarmPoolStatus."""

    ResourceRetainedBillableTimeInSeconds: int


class FinalMetricFields(TypedDict, total=False):
    """MetricData."""

    MetricName: str
    Value: float
    Timestamp: datetime


class TrainingJobSummary(TypedDict, total=False):
    """An entry of ListTrainingJobs."""

    TrainingJobName: str
    TrainingJobArn: str
    CreationTime: datetime
    TrainingEndTime: datetime
    LastModifiedTime: datetime
    TrainingJobStatus: str
    SecondaryStatus: str


class TrainingJobList(TypedDict):
    """The answer of `list_training_jobs`."""

    TrainingJobSummaries: list[TrainingJobSummary]


class TrainingJobCreated(TypedDict):
    """The answer of `create_training_job`."""

    TrainingJobArn: str


class TrainingJobDescription(TrainingJobRequest, total=False):
    """A DescribeTrainingJob document; the Local fields are those of jobs on this machine."""

    TrainingJobArn: str
    TrainingJobStatus: str
    SecondaryStatus: str
    SecondaryStatusTransitions: list[TransitionFields]
    StatusMessage: str
    FailureReason: str
    CreationTime: datetime
    LastModifiedTime: datetime
    TrainingStartTime: datetime
    TrainingEndTime: datetime
    TrainingTimeInSeconds: int
    BillableTimeInSeconds: int
    ModelArtifacts: ModelFields
    WarmPoolStatus: WarmPoolFields
    FinalMetricDataList: list[FinalMetricFields]
    LocalIsolation: str
    LocalNotes: list[str]
    LocalLosses: list[str]
    LocalExitCode: int
    LocalImage: dict[str, str]
