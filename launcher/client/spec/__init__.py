"""Job specifications, independent of where a job runs: values, validation rules and YAML."""

from launcher.client.spec.data_service import DataService
from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.distributions.data_parallel import DataParallel
from launcher.client.spec.distributions.jax_distribution import Jax
from launcher.client.spec.distributions.model_parallel import ModelParallel
from launcher.client.spec.distributions.mpi_distribution import Mpi
from launcher.client.spec.distributions.multi_worker_mirrored import MultiWorkerMirrored
from launcher.client.spec.distributions.parameter_server import ParameterServer
from launcher.client.spec.distributions.toolkit_distribution import Toolkit
from launcher.client.spec.groups import CapacityRetry, InstanceGroup
from launcher.client.spec.job_spec import JobSpec
from launcher.client.spec.metric_definition import MetricDefinition
from launcher.client.spec.roles import infer_roles
from launcher.client.spec.rules import SourceFiles, check
from launcher.client.spec.tracking import Tracking
from launcher.client.spec.training_inputs import FileSystemInput, ShuffleConfig, TrainingInput
from launcher.shared import Ready

__all__ = [
    "JobSpec",
    "InstanceGroup",
    "CapacityRetry",
    "Ready",
    "TrainingInput",
    "ShuffleConfig",
    "FileSystemInput",
    "Distribution",
    "DataParallel",
    "ModelParallel",
    "Mpi",
    "MultiWorkerMirrored",
    "ParameterServer",
    "Jax",
    "Toolkit",
    "DataService",
    "MetricDefinition",
    "Tracking",
    "infer_roles",
    "check",
    "SourceFiles",
]
