"""Estimator: a job described with the SageMaker SDK's arguments, ready to run.

Its methods import what plans, sends and follows a job: half of what would be imported with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from launcher.client.estimator.arguments import JobArguments
from launcher.client.estimator.latest_job import LatestJob
from launcher.client.estimator.sdk_v2_types import as_inputs
from launcher.client.spec import JobSpec, anchored, refuse_wrong_types
from launcher.errors import SpecError

if TYPE_CHECKING:
    from launcher.client.jobs import Job
    from launcher.client.planning import CostPlan
    from launcher.client.sessions import PlatformSession
    from launcher.client.submit import JobDraft

EstimatorType = TypeVar("EstimatorType", bound="Estimator")


class Estimator(JobArguments, LatestJob):
    """A training job to run once or several times; docs/jobs.md lists its arguments.

    The job runs on this machine when the instance type is "local", when `sagemaker_session` is a
    LocalSession, or with `fit(..., local=True)`.
    """

    _inputs: object = None  # of a ModelTrainer

    def _repr_html_(self) -> str:
        from launcher.client.show import notes_html
        from launcher.client.spec import spec_html

        latest = self.latest_training_job
        below = notes_html([("Latest job", latest.name)]) if latest else ""
        return f"<b>{type(self).__name__}</b>{spec_html(self.spec)}{below}"

    def fit(
        self,
        inputs: object = None,
        wait: bool = True,
        logs: bool | str | None = True,
        job_name: str | None = None,
        experiment_config: Mapping[str, object] | None = None,
        *,
        local: bool | None = None,
        max_cost: float | None = None,
        any_source: bool = False,
    ) -> Job:
        """Run the job; return when it has completed, or at once without `wait`.

        inputs: a URI or TrainingInput (channel "training"), or one per channel name.
        logs: whether to show the lines of all hosts; SDK v2's "All" and "None" are accepted.
        experiment_config: for this run, instead of the estimator's own.
        max_cost: dollars; a job that may cost more on AWS is not submitted.
        any_source: send also a home folder, a folder of repositories, or more than 1 GB.

        Raises SpecError for a bad description, and JobFailed or JobStopped if the job ends so.
        """
        from launcher.client.jobs import (
            follow_and_print,
            print_notice,
            prints_logs,
            with_resume_hint,
        )
        from launcher.client.planning import JobAttempt, detached_warnings, run_attempts
        from launcher.client.sessions import new_job_name
        from launcher.client.submit import source_problem

        shown = prints_logs(logs)
        spec = self._with_inputs(inputs)
        if experiment_config is not None:
            spec = spec.replace(experiment_config=experiment_config)
        session = self._session(spec, local)
        # 3: the caller of fit
        first = _drafted(spec, session, job_name or new_job_name(spec), max_cost, stacklevel=3)
        if first.doubts and not any_source:
            raise SpecError([source_problem(first.doubts, "fit(any_source=True) sends it")])
        if not wait:
            for warning in detached_warnings(spec, session):
                warnings.warn(warning, stacklevel=2)
            job = first.send(print_notice)
            self._remember(job)
            return job

        def create(attempt: JobAttempt) -> Job:
            left = None if max_cost is None else max_cost - attempt.spent
            is_first = attempt.name == first.name
            draft = first if is_first else _drafted(attempt.spec, session, attempt.name, left)
            return draft.send(print_notice)

        def follow(job: Job) -> None:
            self._remember(job)
            follow_and_print(job, logs=shown)

        job = run_attempts(first.spec, first.name, session, create, follow, notify=print_notice)
        with with_resume_hint(job.name):
            job.raise_for_status()
        return job

    def plan(self, inputs: object = None) -> CostPlan:
        """Return the job's machines and estimated cost; nothing is sent to or requested from AWS.

        A notebook shows the plan as a table.
        """
        from launcher.client.planning import plan_job

        spec = self._with_inputs(inputs)
        return plan_job(spec, self._session(spec, local=None))

    def request(
        self, job_name: str | None = None, inputs: object = None, *, resolve: bool = False
    ) -> dict[str, Any]:
        """Return the CreateTrainingJob request that `fit` would send; nothing is sent or uploaded.

        resolve: look up an unset role, bucket and image at AWS; otherwise AWS is not called.
        """
        from launcher.client.sessions import aws_session, new_job_name
        from launcher.client.submit import draft_job

        spec = self._with_inputs(inputs)
        name = job_name or new_job_name(spec)
        own = self._own_session(spec, local=None)
        session = own or aws_session(self.sagemaker_session)
        return dict(draft_job(spec, session, name, offline=not (own or resolve)).request)

    def training_image_uri(self) -> str | None:
        """Return the image that the next job starts in; None if it must be given."""
        session = self._session(self.spec, local=None)
        return self.spec.image_uri or session.default_image(self.spec)

    def to_yaml(self, inputs: object = None) -> str:
        """Return the job file that describes the same job to the command line."""
        return self._with_inputs(inputs).to_yaml()

    @classmethod
    def attach(
        cls: type[EstimatorType],
        training_job_name: object,
        sagemaker_session: object = None,
        model_channel_name: str = "model",
    ) -> EstimatorType:
        """Return an estimator for an existing job, created here or by another process.

        training_job_name: a name, or an object: a Job, or a TrainingJob of SDK v3.
        model_channel_name: the channel that is the job's model_uri; without it, a channel with the
        content type of a model is.

        Its `latest_training_job` is that job. It has no source folder, so it cannot `fit` again.

        Raises JobNotFound.
        """
        from launcher.client.estimator.from_description import constructor_arguments
        from launcher.client.estimator.training_job_analytics import find_job

        job = find_job(training_job_name, sagemaker_session)
        session = job.session
        arguments = constructor_arguments(job.description(), job.document(), model_channel_name)
        estimator = cls(sagemaker_session=session, **arguments)
        estimator._remember(job)
        return estimator

    @classmethod
    def from_model_trainer(
        cls: type[EstimatorType], trainer: object, **changes: Any
    ) -> EstimatorType:
        """Return an estimator of the job that a ModelTrainer of SDK v3 describes.

        Its channels are those that `fit` has without inputs of its own. changes: arguments of the
        estimator that take the place of the trainer's.

        Raises SpecError with all of the trainer's settings that a job here cannot have.
        """
        from launcher.client.estimator.model_trainer import arguments_of

        arguments = arguments_of(trainer)
        inputs = arguments.pop("inputs")
        estimator = cls(**{**arguments, **changes})
        estimator._inputs = inputs
        return estimator

    def _with_inputs(self, inputs: object) -> JobSpec:
        inputs = self._inputs if inputs is None else inputs
        channels = as_inputs(inputs)
        spec = self.spec.replace(inputs=channels)
        lone = None if isinstance(inputs, Mapping) else next(iter(channels.values()), None)
        if mode := getattr(lone, "input_mode", None):  # the job's own too, as in SDK v2
            spec = spec.replace(input_mode=mode)
        from launcher.client.request import find_limits

        refuse_wrong_types(spec, find_limits)
        return anchored(spec, Path.cwd())

    def _session(self, spec: JobSpec, local: bool | None) -> PlatformSession:
        from launcher.client.sessions import aws_session

        return self._own_session(spec, local) or aws_session(self.sagemaker_session)

    def _own_session(self, spec: JobSpec, local: bool | None) -> PlatformSession | None:
        from launcher.client.sessions import is_local_mode, own_session

        if local is None:
            local = spec.is_local or is_local_mode(self.sagemaker_session)
        return own_session(self.sagemaker_session, local=local)


def _drafted(
    spec: JobSpec,
    session: PlatformSession,
    name: str,
    max_cost: float | None,
    *,
    stacklevel: int = 5,
) -> JobDraft:
    """Draft a job, unless it may cost more than `max_cost` on AWS.

    stacklevel: the warnings' stack level, which points at the user's own line.
    """
    from launcher.client.planning import enforce_max_cost, plan_job
    from launcher.client.submit import draft_job

    draft = draft_job(spec, session, name)
    for warning in draft.warnings:
        warnings.warn(warning, stacklevel=stacklevel)
    if max_cost is not None and session.platform.bills:
        enforce_max_cost(plan_job(draft.spec, session), max_cost, "max_cost")
    return draft
