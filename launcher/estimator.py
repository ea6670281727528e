"""Estimator and PyTorch: the SageMaker SDK's constructor arguments over a JobSpec.

Where an argument has a type of the `sagemaker` package (InstanceGroup, TrainingInput, Session), an
object of that package is accepted by its attributes; the package itself is never imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from launcher.following.lines import LogLine
from launcher.following.watch import StateChange
from launcher.job import Job
from launcher.porting import (
    as_distribution,
    as_groups,
    as_inputs,
    as_tags,
    constructor_arguments,
    is_local_mode,
)
from launcher.request.submission import prepare
from launcher.sessions.base import Session
from launcher.sessions.finding import session_of
from launcher.sessions.submission import new_job_name, place, place_offline, send
from launcher.spec import DataParallel, DataService, JobSpec
from launcher.spec.anchoring import anchored

EstimatorType = TypeVar("EstimatorType", bound="Estimator")


class Estimator:
    """A training job to be run, once or several times.

    The arguments are those of SageMaker SDK v2's Estimator, plus `data_service`: what the hosts of
    a data group serve. The job runs on this machine when the instance type is "local", when
    `sagemaker_session` is a LocalSession, or with `fit(..., local=True)`.

    Source: https://sagemaker.readthedocs.io/en/v2.257.0/api/training/estimators.html
    """

    def __init__(
        self,
        image_uri: str | None = None,
        role: str | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        *,
        entry_point: str,
        source_dir: str | None = None,
        instance_groups: Sequence[Any] | None = None,
        distribution: DataParallel | Mapping[str, Any] | None = None,
        data_service: DataService | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        volume_size: int = 30,
        max_run: int = 24 * 60 * 60,
        use_spot_instances: bool = False,
        max_wait: int | None = None,
        checkpoint_s3_uri: str | None = None,
        checkpoint_local_path: str | None = None,
        input_mode: str = "File",
        output_path: str | None = None,
        code_location: str | None = None,
        base_job_name: str | None = None,
        sagemaker_session: Any = None,
        environment: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | Sequence[Mapping[str, str]] | None = None,
        metric_definitions: Sequence[Any] | None = None,
        subnets: Sequence[str] | None = None,
        security_group_ids: Sequence[str] | None = None,
        encrypt_inter_container_traffic: bool = False,
        enable_network_isolation: bool = False,
    ) -> None:
        self.sagemaker_session = sagemaker_session
        self.latest_training_job: Job | None = None
        self.spec = JobSpec(
            entry_point=str(entry_point),
            source_dir=None if source_dir is None else str(source_dir),
            instance_groups=as_groups(instance_groups or (), distribution),
            instance_type=instance_type,
            instance_count=instance_count,
            distribution=as_distribution(distribution),
            data_service=data_service,
            hyperparameters=hyperparameters or {},
            image_uri=image_uri,
            role=role,
            output_path=output_path,
            code_location=code_location,
            base_job_name=base_job_name,
            volume_size=volume_size,
            max_run=max_run,
            use_spot_instances=use_spot_instances,
            max_wait=max_wait,
            checkpoint_s3_uri=checkpoint_s3_uri,
            checkpoint_local_path=checkpoint_local_path,
            input_mode=input_mode,
            environment=environment or {},
            tags=as_tags(tags or {}),
            metric_definitions=tuple(metric_definitions or ()),
            subnets=tuple(subnets or ()),
            security_group_ids=tuple(security_group_ids or ()),
            encrypt_inter_container_traffic=encrypt_inter_container_traffic,
            enable_network_isolation=enable_network_isolation,
        )

    def fit(
        self,
        inputs: Any = None,
        wait: bool = True,
        logs: bool = True,
        job_name: str | None = None,
        *,
        local: bool | None = None,
    ) -> Job:
        """Run the job; with `wait` return when it has completed, else at once.

        inputs: a URI or TrainingInput (channel "training"), or one per channel name.

        Raises SpecError for a bad description, JobFailed or JobStopped when the job ended so.
        """
        spec = self._with_inputs(inputs)
        session = self._session(spec, local)
        name = job_name or new_job_name(spec)
        submission = prepare(spec, place(spec, session, name))
        for warning in submission.warnings:
            warnings.warn(warning, stacklevel=2)
        send(submission, session)
        job = self.latest_training_job = Job(name, session)
        if wait:
            _follow(job, logs)
            job.raise_for_status()
        return job

    def request(self, job_name: str | None = None, inputs: Any = None) -> dict[str, Any]:
        """The CreateTrainingJob request that `fit` would send; nothing is sent or uploaded."""
        spec = self._with_inputs(inputs)
        name = job_name or new_job_name(spec)
        session = self._own_session(spec, local=None)
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

    framework_version, py_version: which training image to use on AWS; a job on this machine runs
    in the Python that submits it.
    """

    def __init__(
        self,
        entry_point: str,
        framework_version: str | None = None,
        py_version: str | None = None,
        source_dir: str | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        image_uri: str | None = None,
        distribution: DataParallel | Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        self.framework_version = framework_version
        self.py_version = py_version
        super().__init__(
            entry_point=entry_point,
            source_dir=source_dir,
            hyperparameters=hyperparameters,
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
