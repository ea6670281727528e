"""Launcher: managed training jobs on heterogeneous clusters, and the same jobs on a laptop.

The public names are imported on first use, so `import launcher` costs next to nothing. It also
works inside a job, where only the errors and the job's own packages exist.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.client.estimator import (
        Estimator,
        HuggingFace,
        PyTorch,
        TensorFlow,
    )
    from launcher.client.estimator.training_job_analytics import TrainingJobAnalytics
    from launcher.client.jobs.job import Job
    from launcher.client.jobs.job_metrics import JobMetrics, MetricSeries
    from launcher.client.jobs.log_line import LogLine
    from launcher.client.jobs.metric_records import MetricRecord
    from launcher.client.planning.comparison.comparison import Comparison, compare
    from launcher.client.planning.diagnosis.diagnosis import Diagnosis, diagnose
    from launcher.client.planning.measure import Measure
    from launcher.client.planning.partition_view import Partition
    from launcher.client.planning.partitioner import partition
    from launcher.client.planning.recommendation import (
        PlanLimits,
        PlanOrder,
        Recommendation,
        recommend,
    )
    from launcher.client.planning.reporting.job_report import JobReport, report
    from launcher.client.planning.workload import Workload
    from launcher.client.sessions.aws.aws_session import AwsSession
    from launcher.client.sessions.aws.sdk_v2_session import Session, get_execution_role
    from launcher.client.sessions.local import LocalSession
    from launcher.client.sessions.memory_session import MemoryRun, MemorySession
    from launcher.client.spec import (
        CapacityRetry,
        DataParallel,
        DataService,
        FileSystemInput,
        InstanceGroup,
        Jax,
        JobSpec,
        MetricDefinition,
        ModelParallel,
        Mpi,
        MultiWorkerMirrored,
        ParameterServer,
        Ready,
        ShuffleConfig,
        Toolkit,
        Tracking,
        TrainingInput,
    )
    from launcher.errors import (
        AuthenticationError,
        CapacityError,
        CloudError,
        ContractError,
        CredentialsExpired,
        DataError,
        DataServiceUnavailable,
        JobFailed,
        JobNotFound,
        JobStopped,
        LauncherError,
        LogNotFound,
        NotSent,
        ParallelError,
        PlatformError,
        Problem,
        Refused,
        RequestRefused,
        RuntimeFault,
        SampleError,
        SpecError,
        StillRunning,
        Unreachable,
        WireError,
    )

__version__ = "0.1.0"

_HOMES = {
    "Estimator": "client.estimator",
    "PyTorch": "client.estimator",
    "TensorFlow": "client.estimator",
    "HuggingFace": "client.estimator",
    "TrainingJobAnalytics": "client.estimator.training_job_analytics",
    "InstanceGroup": "client.spec",
    "CapacityRetry": "client.spec",
    "Ready": "client.spec",
    "TrainingInput": "client.spec",
    "ShuffleConfig": "client.spec",
    "FileSystemInput": "client.spec",
    "DataParallel": "client.spec",
    "ModelParallel": "client.spec",
    "Mpi": "client.spec",
    "MultiWorkerMirrored": "client.spec",
    "ParameterServer": "client.spec",
    "Jax": "client.spec",
    "Toolkit": "client.spec",
    "DataService": "client.spec",
    "MetricDefinition": "client.spec",
    "Tracking": "client.spec",
    "JobSpec": "client.spec",
    "Job": "client.jobs.job",
    "LogLine": "client.jobs.log_line",
    "JobMetrics": "client.jobs.job_metrics",
    "MetricSeries": "client.jobs.job_metrics",
    "MetricRecord": "client.jobs.metric_records",
    "partition": "client.planning.partitioner",
    "Partition": "client.planning.partition_view",
    "recommend": "client.planning.recommendation",
    "Workload": "client.planning.workload",
    "Measure": "client.planning.measure",
    "PlanLimits": "client.planning.recommendation",
    "PlanOrder": "client.planning.recommendation",
    "Recommendation": "client.planning.recommendation",
    "diagnose": "client.planning.diagnosis.diagnosis",
    "Diagnosis": "client.planning.diagnosis.diagnosis",
    "compare": "client.planning.comparison.comparison",
    "Comparison": "client.planning.comparison.comparison",
    "report": "client.planning.reporting.job_report",
    "JobReport": "client.planning.reporting.job_report",
    "LocalSession": "client.sessions.local",
    "AwsSession": "client.sessions.aws.aws_session",
    "MemorySession": "client.sessions.memory_session",
    "MemoryRun": "client.sessions.memory_session",
    "Session": "client.sessions.aws.sdk_v2_session",
    "get_execution_role": "client.sessions.aws.sdk_v2_session",
    "LauncherError": "errors",
    "Problem": "errors",
    "SpecError": "errors",
    "PlatformError": "errors",
    "RequestRefused": "errors",
    "JobNotFound": "errors",
    "JobFailed": "errors",
    "JobStopped": "errors",
    "StillRunning": "errors",
    "NotSent": "errors",
    "CloudError": "errors",
    "Refused": "errors",
    "LogNotFound": "errors",
    "Unreachable": "errors",
    "CredentialsExpired": "errors",
    "CapacityError": "errors",
    "RuntimeFault": "errors",
    "ContractError": "errors",
    "ParallelError": "errors",
    "DataError": "errors",
    "DataServiceUnavailable": "errors",
    "AuthenticationError": "errors",
    "WireError": "errors",
    "SampleError": "errors",
}

__all__ = [
    "Estimator",
    "PyTorch",
    "TensorFlow",
    "HuggingFace",
    "TrainingJobAnalytics",
    "InstanceGroup",
    "CapacityRetry",
    "Ready",
    "TrainingInput",
    "ShuffleConfig",
    "FileSystemInput",
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
    "JobSpec",
    "Job",
    "LogLine",
    "JobMetrics",
    "MetricSeries",
    "MetricRecord",
    "partition",
    "Partition",
    "recommend",
    "Workload",
    "Measure",
    "PlanLimits",
    "PlanOrder",
    "Recommendation",
    "diagnose",
    "Diagnosis",
    "compare",
    "Comparison",
    "report",
    "JobReport",
    "LocalSession",
    "AwsSession",
    "MemorySession",
    "MemoryRun",
    "Session",
    "get_execution_role",
    "LauncherError",
    "Problem",
    "SpecError",
    "PlatformError",
    "RequestRefused",
    "JobNotFound",
    "JobFailed",
    "JobStopped",
    "StillRunning",
    "NotSent",
    "CloudError",
    "Refused",
    "LogNotFound",
    "Unreachable",
    "CredentialsExpired",
    "CapacityError",
    "RuntimeFault",
    "ContractError",
    "ParallelError",
    "DataError",
    "DataServiceUnavailable",
    "AuthenticationError",
    "WireError",
    "SampleError",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        home = f"launcher.{_HOMES[name]}"
        try:
            return getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            if not home.startswith(str(error.name)):
                raise
            missing = error.name
    from launcher.shared.users_modules import users_attribute

    try:
        return users_attribute(name)
    except AttributeError:
        if name not in _HOMES:
            raise
    raise ImportError(
        f"launcher.{name} is not available inside a training job: only the job's own side of "
        f"Launcher travels with the code (there is no {missing} here)"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
