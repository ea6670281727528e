"""AWS as far as it is visible from here: first our identity, then what the job needs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from launcher.client.doctor import (
    bucket_checks,
    image_checks,
    network_checks,
    quota_checks,
    role_checks,
)
from launcher.client.doctor.aws_checks import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions.aws.error_translation import translated
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Refused, Unreachable

#: For the first answer. A silent DNS resolver blocks longer than boto's own timeouts.
_FIRST_CONTACT_SECONDS = 10


def check(spec: JobSpec | None, *, use_instance_role: bool) -> Iterator[CheckResult]:
    """Check region and credentials; if they work, also what the job names, and its quotas."""
    connection = Connection(use_instance_role=use_instance_role)
    try:
        yield _region(connection)
        if not connection.has_credentials:
            yield _no_credentials(use_instance_role)
            return
        caller = _caller(connection)
    except CloudError as error:
        yield _no_answer(error)
        return
    yield _finding("credentials", Level.OK, caller)
    yield role_checks.check(connection, spec.role if spec else None, caller)
    if spec is not None:
        if spec.image_uri is not None:
            yield image_checks.check(connection, spec.image_uri)
        yield from bucket_checks.check(connection, spec)
        yield from network_checks.check(connection, spec)
        if connection.region is not None:  # quotas are per region
            yield from quota_checks.check(connection, spec)


def _region(connection: Connection) -> CheckResult:
    if connection.region:
        return _finding("region", Level.OK, connection.region)
    return _finding(
        "region",
        Level.PROBLEM,
        "none is configured",
        "export AWS_DEFAULT_REGION=us-east-1, or run: aws configure set region us-east-1",
    )


def _caller(connection: Connection) -> str:
    """Return our own ARN; raise Unreachable if AWS does not answer in time."""
    answers: queue.Queue[str | CloudError] = queue.Queue()

    def ask() -> None:
        try:
            with translated():
                identity = connection.client("sts").get_caller_identity()
        except CloudError as error:
            answers.put(error)
        else:
            answers.put(str(identity["Arn"]))

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=_FIRST_CONTACT_SECONDS)
    except queue.Empty:
        raise Unreachable(f"no answer within {_FIRST_CONTACT_SECONDS} s") from None
    if isinstance(answer, CloudError):
        raise answer
    return answer


def _no_credentials(use_instance_role: bool) -> CheckResult:
    unasked = (
        "" if use_instance_role else " (an instance's own role was not asked for: --cloud does)"
    )
    return _finding(
        "credentials",
        Level.PROBLEM,
        f"there are none{unasked}",
        "run `aws configure` or `aws sso login`, or set AWS_PROFILE",
    )


def _no_answer(error: CloudError) -> CheckResult:
    if isinstance(error, Refused):
        return _finding(
            "credentials",
            Level.PROBLEM,
            f"AWS does not accept them ({error.headline})",
            "renew them: `aws sso login`, or new keys with `aws configure`",
        )
    return _finding(
        "credentials",
        Level.PROBLEM,
        f"AWS cannot be asked who they belong to: {error.headline}",
        "check the network, the proxy, and what ~/.aws says",
    )


def _finding(subject: str, level: Level, what: str, fix: str | None = None) -> CheckResult:
    return CheckResult(part=CheckSection.AWS, subject=subject, level=level, what=what, fix=fix)
