"""AWS as far as it is visible from here: first our identity, then what the job needs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from launcher.checkup import buckets, image, network, quotas, role
from launcher.checkup.aws import Connection
from launcher.checkup.findings import Finding, Level, Part
from launcher.errors import CloudError, Refused, Unreachable
from launcher.sessions.aws.translation import translated
from launcher.spec import JobSpec

#: For the first answer. A silent DNS resolver blocks longer than boto's own timeouts.
_FIRST_CONTACT_SECONDS = 10


def check(spec: JobSpec | None, *, ask_instance: bool) -> Iterator[Finding]:
    """Check region and credentials; if they work, also what the job names, and its quotas."""
    connection = Connection(ask_instance=ask_instance)
    try:
        yield _region(connection)
        if not connection.has_credentials:
            yield _no_credentials(ask_instance)
            return
        caller = _caller(connection)
    except CloudError as error:
        yield _no_answer(error)
        return
    yield _finding("credentials", Level.OK, caller)
    yield role.check(connection, spec.role if spec else None, caller)
    if spec is not None:
        if spec.image_uri is not None:
            yield image.check(connection, spec.image_uri)
        yield from buckets.check(connection, spec)
        yield from network.check(connection, spec)
        if connection.region is not None:  # quotas are per region
            yield from quotas.check(connection, spec)


def _region(connection: Connection) -> Finding:
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


def _no_credentials(ask_instance: bool) -> Finding:
    unasked = "" if ask_instance else " (an instance's own role was not asked for: --cloud does)"
    return _finding(
        "credentials",
        Level.PROBLEM,
        f"there are none{unasked}",
        "run `aws configure` or `aws sso login`, or set AWS_PROFILE",
    )


def _no_answer(error: CloudError) -> Finding:
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


def _finding(subject: str, level: Level, what: str, fix: str | None = None) -> Finding:
    return Finding(part=Part.AWS, subject=subject, level=level, what=what, fix=fix)
