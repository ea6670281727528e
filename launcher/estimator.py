"""Estimator, PyTorch and TensorFlow: jobs that are described as in SageMaker's SDK, and run.

The `sagemaker` package itself is never imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from launcher.arguments import JobArguments
from launcher.capacity.pursuit import needs_somebody_who_waits, pursue
from launcher.following.lines import LogLine
from launcher.following.patience import telling_way_back
from launcher.following.watch import StateChange
from launcher.job import Job
from launcher.plan import Plan, plan_job, refuse_above
from launcher.porting import as_inputs, constructor_arguments, is_local_mode
from launcher.request.submission import prepare
from launcher.sessions.base import LOCAL_REGION, Session
from launcher.sessions.finding import session_of
from launcher.sessions.submission import new_job_name, place, place_offline, send
from launcher.spec import DataParallel, JobSpec, Mpi, Toolkit
from launcher.spec.anchoring import anchored

EstimatorType = TypeVar("EstimatorType", bound="Estimator")


class Estimator(JobArguments):
    """A training job to be run, once or several times; made of what `JobArguments` lists.

    The job runs on this machine when the instance type is "local", when `sagemaker_session` is a
    LocalSession, or with `fit(..., local=True)`.
    """

    #: The job that `fit` created last, or that was attached to.
    latest_training_job: Job | None = None

    def fit(
        self,
        inputs: Any = None,
        wait: bool = True,
        logs: Any = True,
        job_name: str | None = None,
        experiment_config: Mapping[str, Any] | None = None,
        *,
        local: bool | None = None,
        max_cost: float | None = None,
    ) -> Job:
        """Run the job; with `wait` return when it has completed, else at once.

        inputs: a URI or TrainingInput (channel "training"), or one per channel name.
        logs: whether to show the lines of all hosts; SDK v2's "All" and "None" are accepted.
        experiment_config: of this run; else the estimator's own.
        max_cost: dollars; a job that may cost more on AWS is not sent.

        Raises SpecError for a bad description, JobFailed or JobStopped when the job ended so.
        """
        spec = self._with_inputs(inputs)
        if experiment_config is not None:
            spec = spec.replace(experiment_config=experiment_config)
        session = self._session(spec, local)
        name = job_name or new_job_name(spec)

        def attempt(tried: JobSpec, its_name: str) -> Job:
            job = self.latest_training_job = _send(tried, session, its_name, max_cost)
            if wait:
                _follow(job, logs not in (None, False, "None"))
            return job

        if not wait:
            if warning := needs_somebody_who_waits(spec):
                warnings.warn(warning, stacklevel=2)
            return attempt(spec, name)
        job = pursue(spec, name, attempt, tell=_print_notice)
        with telling_way_back(job.name):
            job.raise_for_status()
        return job

    def plan(self, inputs: Any = None) -> Plan:
        """The job's machines and what they may cost: an estimate; nothing is sent or asked.

        A notebook shows it as a table.
        """
        spec = self._with_inputs(inputs)
        return plan_job(spec, self._session(spec, local=None))

    def request(
        self, job_name: str | None = None, inputs: Any = None, *, resolve: bool = False
    ) -> dict[str, Any]:
        """The CreateTrainingJob request that `fit` would send; nothing is sent or uploaded.

        resolve: ask AWS for what is left open: role, bucket, image; else nothing is asked.
        """
        spec = self._with_inputs(inputs)
        name = job_name or new_job_name(spec)
        session = self._own_session(spec, local=None)
        if session is None and resolve:
            session = _aws_session(self.sagemaker_session)
        placement = place(spec, session, name) if session else place_offline(spec, name)
        return dict(prepare(spec, placement).request)

    def to_yaml(self, inputs: Any = None) -> str:
        """The job file that describes the same job to the command line."""
        return self._with_inputs(inputs).to_yaml()

    @property
    def model_data(self) -> str:
        """The URI of the model of the latest job."""
        if self.latest_training_job is None:
            raise AttributeError("model_data: this estimator has not run a job; call fit() first")
        return self.latest_training_job.model_data

    @classmethod
    def attach(
        cls: type[EstimatorType], training_job_name: str, sagemaker_session: Any = None
    ) -> EstimatorType:
        """An estimator of a job that was created before, here or by another process.

        Its `latest_training_job` is that job; it has no source folder, so it cannot `fit` again.

        Raises JobNotFound.
        """
        job = _find(training_job_name, sagemaker_session)
        session = job.session
        arguments = constructor_arguments(job.description(), job.document())
        estimator = cls(sagemaker_session=session, **arguments)
        estimator.latest_training_job = job
        return estimator

    def _with_inputs(self, inputs: Any) -> JobSpec:
        return anchored(self.spec.replace(inputs=as_inputs(inputs)), Path.cwd())

    def _session(self, spec: JobSpec, local: bool | None) -> Session:
        return self._own_session(spec, local) or _aws_session(self.sagemaker_session)

    def _own_session(self, spec: JobSpec, local: bool | None) -> Session | None:
        if own := _as_session(self.sagemaker_session):
            return own
        if local is None:
            local = spec.is_local or is_local_mode(self.sagemaker_session)
        return _local_session() if local else None


class PyTorch(Estimator):
    """An Estimator whose script comes first, as in SageMaker SDK v2's PyTorch.

    framework_version, py_version: which training image to use on AWS, where no image_uri says it;
    a job on this machine runs in the Python that submits it.
    """

    def __init__(
        self,
        entry_point: Any,
        framework_version: str | None = None,
        py_version: str | None = None,
        source_dir: Any = None,
        hyperparameters: Mapping[str, Any] | None = None,
        image_uri: str | None = None,
        distribution: DataParallel | Mpi | Toolkit | Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(
            entry_point=entry_point,
            framework="pytorch",
            framework_version=framework_version,
            py_version=py_version,
            source_dir=source_dir,
            hyperparameters=hyperparameters,
            image_uri=image_uri,
            distribution=distribution,
            **arguments,
        )


class TensorFlow(Estimator):
    """An Estimator with the arguments of SageMaker SDK v2's TensorFlow.

    framework_version, py_version: as in PyTorch. model_dir: the hyperparameter of that name; the
    script has none unless one is given.
    """

    def __init__(
        self,
        py_version: str | None = None,
        framework_version: str | None = None,
        model_dir: str | bool | None = None,
        image_uri: str | None = None,
        distribution: DataParallel | Mpi | Toolkit | Mapping[str, Any] | None = None,
        *,
        entry_point: Any,
        hyperparameters: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        own = {"model_dir": model_dir} if model_dir else {}
        super().__init__(
            entry_point=entry_point,
            framework="tensorflow",
            framework_version=framework_version,
            py_version=py_version,
            hyperparameters={**(hyperparameters or {}), **own},
            image_uri=image_uri,
            distribution=distribution,
            **arguments,
        )


def _as_session(value: Any) -> Session | None:
    """One of our sessions; None for none, and for a session of the sagemaker package."""
    session: Session | None = value if hasattr(value, "read_log") else None
    return session


def _local_session() -> Session:
    from launcher.sessions.local import LocalSession

    return LocalSession()


def _aws_session(foreign: Any) -> Session:
    """SageMaker, asked through the boto3 session of a Session of the sagemaker package, if any."""
    from launcher.sessions.aws import AwsSession

    return AwsSession(
        getattr(foreign, "boto_region_name", None),
        boto_session=getattr(foreign, "boto_session", None),
        default_bucket=getattr(foreign, "_default_bucket_name_override", None),
    )


def _find(name: str, sagemaker_session: Any) -> Job:
    """A job of the given session; without one, of this machine, or else of AWS."""
    if sagemaker_session is None:
        return Job(name, session_of(name))
    if is_local_mode(sagemaker_session):
        return Job(name, _local_session())
    return Job(name, _as_session(sagemaker_session) or _aws_session(sagemaker_session))


def _send(spec: JobSpec, session: Session, name: str, max_cost: float | None) -> Job:
    """Create a job, unless it may cost more than `max_cost` on AWS."""
    submission = prepare(spec, place(spec, session, name))
    for warning in submission.warnings:
        warnings.warn(warning, stacklevel=4)  # where fit was called
    if max_cost is not None and session.region != LOCAL_REGION:
        refuse_above(plan_job(spec, session), max_cost, "max_cost")
    send(submission, session)
    return Job(name, session)


def _follow(job: Job, logs: bool) -> None:
    if logs:
        print(f"Job {job.name}", flush=True)
    try:
        job.wait(
            logs=_print_line if logs else None,
            states=_print_state if logs else None,
            notices=_print_notice,
        )
    except KeyboardInterrupt:
        print(
            f"\nDetached; job {job.name} goes on. latest_training_job.wait() comes back to it, and "
            "latest_training_job.stop() ends it.",
            flush=True,
        )
        raise


def _print_line(line: LogLine) -> None:
    print(f"{line.group}/{line.host} | {line.readable}", flush=True)


def _print_state(state: StateChange) -> None:
    print(state, flush=True)


def _print_notice(notice: str) -> None:
    print(f"({notice})", flush=True)
