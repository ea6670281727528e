"""Locations of a job on a session: its name, image, role, and the URIs of its code and results."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from launcher.client.request import (
    JobLocation,
    check_name,
    image_of,
    image_region,
    job_name,
    python_problems,
    registry_problems,
)
from launcher.client.sessions.base import CHECKPOINTS_FOLDER, PlatformSession
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Problem, SpecError

_ASK_AWS = "or let AWS be asked for it: --resolve, in Python resolve=True"


def new_job_name(spec: JobSpec) -> str:
    """Return a unique name for one run of a spec: its base, the time, ten random hex digits.

    The base is that of the spec, else the names of the source's folder and of the script. Among 200
    jobs created in one second, the odds that two names collide are 1 in 55 million.
    """
    module = (spec.task or "").partition(":")[0]
    script = Path(spec.entry_point).stem or module or "job"
    return job_name(
        spec.base_job_name or _with_folder(spec, script),
        datetime.now(timezone.utc),
        secrets.token_hex(5),
    )


def _with_folder(spec: JobSpec, script: str) -> str:
    """Return a script's name behind that of its folder, where that is one of this machine."""
    source = spec.source_dir
    if not source or "://" in str(source):
        return script
    folder = Path(source).resolve().name
    return script if folder in ("", script) else f"{folder}-{script}"


def place(spec: JobSpec, session: PlatformSession, name: str) -> JobLocation:
    """Return the locations at which a session runs a spec.

    Raises SpecError when the spec lacks something that this session needs.
    """
    image, problems = _image(spec, session.default_image)
    if not session.platform.runs_here:  # hosts on this machine use no image
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
    if named := spec.image_uri or spec.algorithm_arn:
        return named, []
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
