"""Launcher: managed training jobs on heterogeneous clusters, and the same jobs on a laptop.

The public names are imported on first use, so `import launcher` costs next to nothing. It also
works inside a job, where only the errors and the job's own packages exist.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.errors import (
        CapacityError,
        CloudError,
        CredentialsExpired,
        DataError,
        JobFailed,
        JobNotFound,
        JobStopped,
        LauncherError,
        ParallelError,
        PlatformError,
        Problem,
        Refused,
        SpecError,
        Unreachable,
    )
    from launcher.estimator import Estimator, PyTorch, TensorFlow
    from launcher.following.lines import LogLine
    from launcher.job import Job
    from launcher.partitioner import partition
    from launcher.partitions import Partition
    from launcher.sessions.aws import AwsSession
    from launcher.sessions.aws.notebook import Session, get_execution_role
    from launcher.sessions.local import LocalSession
    from launcher.spec import (
        CapacityRetry,
        DataParallel,
        DataService,
        FileSystemInput,
        InstanceGroup,
        JobSpec,
        MetricDefinition,
        ModelParallel,
        Mpi,
        Ready,
        Toolkit,
        TrainingInput,
    )

__version__ = "0.1.0"

_HOMES = {
    "Estimator": "estimator",
    "PyTorch": "estimator",
    "TensorFlow": "estimator",
    "InstanceGroup": "spec",
    "CapacityRetry": "spec",
    "Ready": "spec",
    "TrainingInput": "spec",
    "FileSystemInput": "spec",
    "DataParallel": "spec",
    "ModelParallel": "spec",
    "Mpi": "spec",
    "Toolkit": "spec",
    "DataService": "spec",
    "MetricDefinition": "spec",
    "JobSpec": "spec",
    "Job": "job",
    "LogLine": "following.lines",
    "partition": "partitioner",
    "Partition": "partitions",
    "LocalSession": "sessions.local",
    "AwsSession": "sessions.aws",
    "Session": "sessions.aws.notebook",
    "get_execution_role": "sessions.aws.notebook",
    "LauncherError": "errors",
    "Problem": "errors",
    "SpecError": "errors",
    "PlatformError": "errors",
    "JobNotFound": "errors",
    "JobFailed": "errors",
    "JobStopped": "errors",
    "CloudError": "errors",
    "Refused": "errors",
    "Unreachable": "errors",
    "CredentialsExpired": "errors",
    "CapacityError": "errors",
    "DataError": "errors",
    "ParallelError": "errors",
}

__all__ = [
    "Estimator",
    "PyTorch",
    "TensorFlow",
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
    "JobSpec",
    "Job",
    "LogLine",
    "partition",
    "Partition",
    "LocalSession",
    "AwsSession",
    "Session",
    "get_execution_role",
    "LauncherError",
    "Problem",
    "SpecError",
    "PlatformError",
    "JobNotFound",
    "JobFailed",
    "JobStopped",
    "CloudError",
    "Refused",
    "Unreachable",
    "CredentialsExpired",
    "CapacityError",
    "DataError",
    "ParallelError",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'launcher' has no attribute {name!r}")
    home = f"launcher.{_HOMES[name]}"
    try:
        module = import_module(home)
    except ModuleNotFoundError as error:
        if not home.startswith(str(error.name)):
            raise
        raise ImportError(
            f"launcher.{name} is not available inside a training job: only the job's own side of "
            f"Launcher travels with the code (there is no {error.name} here)"
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
