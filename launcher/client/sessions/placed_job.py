"""A job at its place: its spec, the session that is to run it, and everything to send there."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.request import JobLocation, Submission, field_of, prepare
from launcher.client.sessions.base import PlatformSession
from launcher.client.sessions.completed_spec import completed
from launcher.client.sessions.job_location import place, place_offline
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Problem, RequestRefused

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest


@dataclass(frozen=True, kw_only=True)
class PlacedJob:
    """A spec that keeps every rule, with its exact request for one session and one name.

    is_offline: the session was not called, so that its role, bucket and image come from the spec.
    """

    spec: JobSpec
    session: PlatformSession
    location: JobLocation
    submission: Submission
    is_offline: bool = False

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.location.job_name

    @property
    def request(self) -> TrainingJobRequest:
        """The CreateTrainingJob request, with the job's token."""
        return self.submission.request

    @property
    def warnings(self) -> tuple[str, ...]:
        """Messages for the user to read before the job is sent."""
        return self.submission.warnings

    def check(self) -> None:
        """Raise the session's own error for a request that it cannot run; nothing is stored."""
        with self.naming_fields():
            self.session.check_training_job(self.request, self.submission.objects.keys())

    @contextlib.contextmanager
    def naming_fields(self) -> Iterator[None]:
        """Name the job's fields, as they were written, where a session refuses its request."""
        try:
            yield
        except RequestRefused as error:
            raise RequestRefused(map(self._of_the_job, error.problems)) from None

    def _of_the_job(self, problem: Problem) -> Problem:
        field = problem.path and field_of(self.spec, self.request, problem.path)
        if not field or not getattr(self.spec, str(field[0])):
            return problem  # nobody wrote it
        return dataclasses.replace(problem, path=field, where=self.spec.where(field))


def place_job(
    spec: JobSpec, session: PlatformSession, name: str, *, offline: bool = False
) -> PlacedJob:
    """Complete a spec, check it, and build everything to send to a session.

    offline: do not call the session, which is SageMaker's; the spec must then name everything.

    Raises SpecError with every problem.
    """
    whole = completed(spec, session, offline=offline)
    return place_completed(whole, session, name, offline=offline)


def place_completed(
    spec: JobSpec, session: PlatformSession, name: str, *, offline: bool = False
) -> PlacedJob:
    """Check a spec that `completed` returned, and build what to send. See `place_job`."""
    if offline:
        location = place_offline(spec, name, _configured_region(session))
    else:
        location = place(spec, session, name)
    return PlacedJob(
        spec=spec,
        session=session,
        location=location,
        submission=prepare(spec, location),
        is_offline=offline,
    )


def _configured_region(session: PlatformSession) -> str:
    """Return the session's region; "" if none is configured, which a dry run allows."""
    try:
        return session.region
    except CloudError:
        return ""
