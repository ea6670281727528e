"""A job at its place: its spec, the session that is to run it, and everything to send there.

The place is the job's name, its image and its role, and the URIs of its code and results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.request import (
    JobLocation,
    Submission,
    field_of,
    image_of,
    image_region,
    prepare,
    python_problems,
    registry_problems,
)
from launcher.client.sessions.base import CHECKPOINTS_FOLDER, PlatformSession
from launcher.client.sessions.completed_spec import completed
from launcher.client.sessions.job_names import check_name
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Problem, RequestRefused, SpecError

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

_ASK_AWS = "or let AWS be asked for it: --resolve, in Python resolve=True"


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


def place(spec: JobSpec, session: PlatformSession, name: str) -> JobLocation:
    """Return the locations at which a session runs a spec.

    Raises SpecError when the spec lacks something that this session needs.
    """
    image, problems = _image(spec, session.default_image)
    if session.platform.runs_image:
        problems += python_problems(spec, image)
    if session.platform.uses_aws:
        problems += registry_problems(spec, session.region)
    problems += check_name(name)
    if not session.platform.reads_files:
        problems += _places_of_this_machine(spec)
    if problems:
        raise SpecError(problems)
    code = _own_location(spec.code_location or spec.output_path, session)
    return JobLocation(
        job_name=name,
        role_arn=session.role_arn(spec.role),
        image_uri=image,
        code_uri=f"{code}/{name}/code/",
        output_uri=_own_location(spec.output_path, session),
        checkpoint_uri=_own_checkpoints(spec.checkpoint_s3_uri, session),
        token=secrets.token_hex(16),
        region=session.region,
        judge=session.platform.judge,
    )


def place_offline(spec: JobSpec, name: str, region: str = "") -> JobLocation:
    """Return the locations at which SageMaker would run a spec, from the spec alone.

    region: the configured one; "" without one.

    Raises SpecError naming the fields that the spec lacks.
    """
    from launcher.client.sessions.aws.sagemaker_platform import SAGEMAKER  # as its session does

    image, problems = _image(spec, _image_offline)
    problems += python_problems(spec, image)
    problems += registry_problems(spec, region)
    problems += check_name(name)
    if spec.role is None:
        problems.append(_missing("role", "the ARN of the job's IAM role", _ASK_AWS))
    elif not spec.role.startswith("arn:"):
        what = f"the request needs the role's ARN, and {spec.role!r} is a name"
        problems.append(Problem(what=what, where="role", fix=f"give the ARN; {_ASK_AWS}"))
    if spec.output_path is None:
        meaning = "s3://BUCKET/PREFIX for the job's results"
        problems.append(_missing("output_path", meaning, _ASK_AWS))
    problems += _places_of_this_machine(spec)
    if problems:
        raise SpecError(problems)
    output = str(spec.output_path).rstrip("/")
    code = (spec.code_location or output).rstrip("/")
    return JobLocation(
        job_name=name,
        role_arn=str(spec.role),
        image_uri=image,
        code_uri=f"{code}/{name}/code/",
        output_uri=output,
        checkpoint_uri=spec.checkpoint_s3_uri,
        token=secrets.token_hex(16),
        region=region or image_region(image) or "",
        judge=SAGEMAKER.judge,
    )


def _image(spec: JobSpec, find: Callable[[JobSpec], str | None]) -> tuple[str, list[Problem]]:
    """Return the job's image or, in its place, its algorithm; and the problems found."""
    if (named := spec.image_uri or spec.algorithm_arn) or spec.is_serverless:
        return named or "", []
    try:
        image = find(spec)
    except SpecError as error:
        return "", list(error.problems)
    meaning = "the URI of a training image, or framework and framework_version for one of AWS's"
    return image or "", [] if image else [_missing("image_uri", meaning)]


def _image_offline(spec: JobSpec) -> str | None:
    """Return AWS's image for the configured region, without asking AWS."""
    from launcher.client.sessions.aws.clients import Clients

    if spec.framework_version is None:
        return None
    try:
        return image_of(spec, Clients(None).region)
    except CloudError as error:
        what = f"each region has images of its own: {error.headline}"
        fix = "export AWS_DEFAULT_REGION=us-east-1 (your own), or give image_uri"
        raise SpecError([Problem(what=what, where="image_uri", fix=fix)]) from error


def _places_of_this_machine(spec: JobSpec) -> list[Problem]:
    """Return a problem for each file:// URI of a spec, which only hosts on this machine read."""
    return [
        Problem(
            what=f"{uri} is on this machine, which the job's hosts cannot reach",
            where=field,
            fix=f"upload it and give its URI: --set {field}=s3://BUCKET/PREFIX; or add --local",
        )
        for field, uri in spec.uris.items()
        if _scheme(uri) == "file"
    ]


def _own_location(uri: str | None, session: PlatformSession) -> str:
    """Return the spec's location if it has the session's scheme, else the session's default.

    A local job does not write to S3.
    """
    if uri is None or _scheme(uri) != session.platform.uri_scheme:
        return session.default_location().rstrip("/")
    return uri.rstrip("/")


def _own_checkpoints(uri: str | None, session: PlatformSession) -> str | None:
    """Return the spec's checkpoint location, or its equivalent below the session's own location.

    Every run of a spec finds the checkpoints of the previous run, wherever it runs.
    """
    if uri is None or _scheme(uri) == session.platform.uri_scheme:
        return uri
    default = session.default_location().rstrip("/")
    return f"{default}/{CHECKPOINTS_FOLDER}/{uri.partition('://')[2].strip('/')}"


def _scheme(uri: str) -> str:
    return uri.partition("://")[0]


def _missing(field: str, meaning: str, instead: str = "") -> Problem:
    return Problem(
        what=f"the request needs {field}, and the spec does not give it",
        where=field,
        fix=f"give {field}: {meaning} (--set {field}=... on the command line)"
        + (f"; {instead}" if instead else ""),
    )
