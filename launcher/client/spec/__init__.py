"""Job specifications, independent of where a job runs: values, validation rules and YAML."""

from launcher.client.spec.distribution import DataParallel, DataService, ModelParallel, Mpi, Toolkit
from launcher.client.spec.groups import CapacityRetry, InstanceGroup
from launcher.client.spec.job_spec import JobSpec
from launcher.client.spec.metric_definition import MetricDefinition
from launcher.client.spec.roles import infer_roles
from launcher.client.spec.rules import SourceFiles, check
from launcher.client.spec.training_inputs import FileSystemInput, TrainingInput
from launcher.shared import Ready

__all__ = [
    "JobSpec",
    "InstanceGroup",
    "CapacityRetry",
    "Ready",
    "TrainingInput",
    "FileSystemInput",
    "DataParallel",
    "ModelParallel",
    "Mpi",
    "Toolkit",
    "DataService",
    "MetricDefinition",
    "infer_roles",
    "check",
    "SourceFiles",
]
