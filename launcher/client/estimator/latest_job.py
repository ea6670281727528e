"""The latest job of an Estimator: its logs, metrics and artifacts, by SDK v2's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.client.estimator.spec_attributes import SpecAttributes
from launcher.client.request import read_path
from launcher.client.sessions import CanUpdateJobs
from launcher.errors import LauncherError

if TYPE_CHECKING:
    from launcher.client.estimator.training_job_analytics import TrainingJobAnalytics
    from launcher.client.jobs import Job


class LatestJob(SpecAttributes):
    """The latest job of an Estimator: its logs, metrics and artifacts."""

    #: The job that `fit` created last, or that `attach` found.
    latest_training_job: Job | None = None
    #: The jobs that `fit` has created or `attach` found, the latest last.
    jobs: tuple[Job, ...] = ()

    @property
    def model_data(self) -> str:
        """The URI of the model of the latest job."""
        if self.latest_training_job is None:
            raise AttributeError("model_data: this estimator has not run a job; call fit() first")
        return self.latest_training_job.model_data

    @property
    def _current_job_name(self) -> str | None:
        """The name of the latest job; AWS's own notebooks read this private name of SDK v2's."""
        return self.latest_training_job.name if self.latest_training_job else None

    def logs(self) -> None:
        """Print the latest job's lines from the start until it has ended.

        Raises JobFailed or JobStopped if it ends so.
        """
        self._latest("logs").wait(logs="All")

    @property
    def training_job_analytics(self) -> TrainingJobAnalytics:
        """The metrics of the latest job over time."""
        from launcher.client.estimator.training_job_analytics import TrainingJobAnalytics

        job = self._latest("training_job_analytics")
        return TrainingJobAnalytics(job)

    def latest_job_debugger_artifacts_path(self) -> str | None:
        """Return the URI of SageMaker Debugger's tensors; None without its hook."""
        return self._artifacts("DebugHookConfig", "debug-output")

    def latest_job_tensorboard_artifacts_path(self) -> str | None:
        """Return the URI of TensorBoard's files; None without a tensorboard_output_config."""
        return self._artifacts("TensorBoardOutputConfig", "tensorboard-output")

    def latest_job_profiler_artifacts_path(self) -> str | None:
        """Return the URI of the profiler's files; None without a profiler."""
        job = self._latest("profiler-output")
        if read_path(job.describe(), "ProfilerConfig.DisableProfiler"):
            return None
        return self._artifacts("ProfilerConfig", "profiler-output")

    def enable_remote_debug(self) -> None:
        """Allow a shell in the containers, of the running job and of later ones.

        Raises LauncherError if the job is not on SageMaker, and Refused if it has ended.
        """
        self._set_remote_debug(True)

    def disable_remote_debug(self) -> None:
        """Forbid a shell in the containers; see `enable_remote_debug`."""
        self._set_remote_debug(False)

    def _set_remote_debug(self, enabled: bool) -> None:
        """Change the running job, if there is one, then the spec: a refusal changes neither."""
        if job := self.latest_training_job:
            if not isinstance(job.session, CanUpdateJobs):
                raise LauncherError(
                    f"job {job.name} is not on SageMaker, which alone can change the remote "
                    "debugging of a running job: give enable_remote_debug to the constructor"
                )
            job.session.update_training_job(
                TrainingJobName=job.name, RemoteDebugConfig={"EnableRemoteDebug": enabled}
            )
        self.spec = self.spec.replace(enable_remote_debug=enabled)

    def _remember(self, job: Job) -> None:
        self.latest_training_job = job
        self.jobs = (*self.jobs, job)

    def _latest(self, asked: str) -> Job:
        if self.latest_training_job is None:
            raise LauncherError(f"no {asked}: this estimator has not run a job; call fit() first")
        return self.latest_training_job

    def _artifacts(self, config: str, folder: str) -> str | None:
        """Return the URI below a part of the latest job's request, where SageMaker stores files."""
        job = self._latest(folder)
        place = read_path(job.describe(), f"{config}.S3OutputPath")
        return place and f"{place.rstrip('/')}/{job.name}/{folder}"
