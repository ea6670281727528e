"""Job specifications, independent of where a job runs: values, validation rules and YAML."""

from launcher.contract import Ready
from launcher.spec.distribution import DataParallel, DataService, ModelParallel, Mpi, Toolkit
from launcher.spec.groups import CapacityRetry, InstanceGroup
from launcher.spec.inputs import FileSystemInput, TrainingInput
from launcher.spec.job import JobSpec
from launcher.spec.metrics import MetricDefinition
from launcher.spec.roles import infer_roles
from launcher.spec.rules import Source, check

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
    "Source",
]
