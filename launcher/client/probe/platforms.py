"""The probe on each platform: run on this machine, or printed as the request for AWS."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from launcher.client.jobs import Job
from launcher.client.probe.probe_answers import collect
from launcher.client.probe.probe_job import build_probe, probe_spec
from launcher.client.request import redacted
from launcher.client.sessions import LocalSession, new_job_name, obstacles, place, place_offline
from launcher.client.submit import send
from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

#: Hosts on one machine start together, so long timeouts would add nothing.
_LOCAL_TIMEOUTS = {"wait_seconds": 60, "linger_seconds": 1}


def probe_locally(notify: Callable[[str], None]) -> dict[str, object]:
    """Return the answers of the local session by isolation, for those that work here."""
    return {
        isolation.value: _probe(isolation.value, notify)
        for isolation, obstacle in obstacles().items()
        if obstacle is None
    }


def request_for_aws(role: str | None, image: str | None, output: str | None) -> TrainingJobRequest:
    """Return the exact request; raise SpecError for missing options."""
    spec = probe_spec({}).replace(role=role, image_uri=image, output_path=output)
    problems = [
        *_check_option("--role", role, "arn:", "the ARN of an IAM role that SageMaker may assume"),
        *_check_option("--image", image, "", "the URI of an image with Python 3.10 or newer"),
        *_check_option(
            "--output", output, "s3://", "s3://BUCKET/PREFIX, for its files and answers"
        ),
    ]
    if problems:
        raise SpecError(problems)
    placement = place_offline(spec, new_job_name(spec))
    return redacted(build_probe(spec, placement).request)


def _probe(isolation: str, notify: Callable[[str], None]) -> dict[str, object]:
    session = LocalSession(isolation=isolation)
    spec = probe_spec(_LOCAL_TIMEOUTS)
    job = Job(new_job_name(spec), session)
    notify(f"Probing this machine with isolation {isolation} (job {job.name})")
    send(build_probe(spec, place(spec, session, job.name)), session)
    return collect(job.wait())


def _check_option(option: str, given: str | None, beginning: str, meaning: str) -> list[Problem]:
    if given and given.startswith(beginning):
        return []
    what = f"{given!r} does not begin with {beginning}" if given else f"{option} is not given"
    return [Problem(what=what, where=option, fix=f"set it to {meaning}")]
