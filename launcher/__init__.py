"""Launcher: managed training jobs on heterogeneous clusters, and the same jobs on a laptop.

The public names are imported on first use, so `import launcher` costs next to nothing. It also
works inside a job, where only the errors and the job's own packages exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.estimator import (
        Estimator,
        HuggingFace,
        PyTorch,
        TensorFlow,
        TrainingJobAnalytics,
    )
    from launcher.client.jobs import Job, JobMetrics, LogLine, MetricRecord, MetricSeries
    from launcher.client.page import JobReport, report
    from launcher.client.planning import (
        Comparison,
        Diagnosis,
        Measure,
        Partition,
        PlanLimits,
        PlanOrder,
        Recommendation,
        Workload,
        compare,
        diagnose,
        partition,
        recommend,
    )
    from launcher.client.sessions import (
        AwsSession,
        LocalSession,
        MemoryRun,
        MemorySession,
        Session,
        get_execution_role,
    )
    from launcher.client.spec import (
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
        Retry,
        ShuffleConfig,
        Toolkit,
        Tracking,
        TrainingInput,
    )
    from launcher.errors import (
        CloudError,
        JobFailed,
        JobNotFound,
        JobStopped,
        LauncherError,
        PlatformError,
        Problem,
        SpecError,
        StillRunning,
    )

__version__ = "0.2.0"

__all__ = [
    "Estimator",
    "PyTorch",
    "TensorFlow",
    "HuggingFace",
    "TrainingJobAnalytics",
    "InstanceGroup",
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
    "Retry",
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
    "JobNotFound",
    "JobFailed",
    "JobStopped",
    "StillRunning",
    "CloudError",
]


_find = open_door(__name__)


def __getattr__(name: str) -> object:
    is_ours = name in __all__
    if is_ours:
        try:
            return _find(name)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.client":
                raise
    from launcher.errors import KINDS
    from launcher.shared.users_modules import users_attribute

    if name in KINDS:
        return KINDS[name]
    try:
        return users_attribute(name)
    except AttributeError:
        if not is_ours:
            raise
    raise ImportError(
        f"launcher.{name} is not available inside a training job: only the job's own side of "
        f"Launcher travels with the code (there is no {__name__}.client here)"
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
