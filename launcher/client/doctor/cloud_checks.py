"""Checks of AWS: first the caller's identity, then the resources that the job needs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from launcher.client.doctor import network_checks
from launcher.client.doctor.aws_connection import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.doctor.resource_checks import (
    check_buckets,
    check_image,
    check_quotas,
    check_role,
)
from launcher.client.sessions import translate_errors
from launcher.client.spec import JobSpec
from launcher.errors import CloudError, Refused, Unreachable

_finding = CheckSection.AWS.finding

#: For the first response. An unresponsive DNS resolver blocks longer than boto's own timeouts.
_FIRST_CONTACT_SECONDS = 10


def check(spec: JobSpec | None, *, use_instance_role: bool) -> Iterator[CheckResult]:
    """Check region and credentials; if they work, also the job's resources and quotas."""
    connection = Connection(use_instance_role=use_instance_role)
    try:
        yield _region(connection)
        if not connection.has_credentials:
            yield _no_credentials(use_instance_role)
            return
        caller = _caller(connection)
    except CloudError as error:
        yield _no_response(error)
        return
    yield _finding("credentials", Level.OK, caller)
    yield check_role(connection, spec.role if spec else None, caller)
    if spec is not None:
        if spec.image_uri is not None:
            yield check_image(connection, spec.image_uri)
        yield from check_buckets(connection, spec)
        yield from network_checks.check(connection, spec)
        if connection.region is not None:  # quotas are per region
            yield from check_quotas(connection, spec)


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
    """Return the caller's ARN; raise Unreachable if AWS does not respond in time."""
    results: queue.Queue[str | CloudError] = queue.Queue()
    with translate_errors():
        client = connection.client("sts")  # reads boto's model, which takes no response

    def call() -> None:
        try:
            with translate_errors():
                identity = client.get_caller_identity()
        except CloudError as error:
            results.put(error)
        else:
            results.put(str(identity["Arn"]))

    threading.Thread(target=call, daemon=True).start()
    try:
        response = results.get(timeout=_FIRST_CONTACT_SECONDS)
    except queue.Empty:
        raise Unreachable(f"no response within {_FIRST_CONTACT_SECONDS} s") from None
    if isinstance(response, CloudError):
        raise response
    return response


def _no_credentials(use_instance_role: bool) -> CheckResult:
    note = (
        "" if use_instance_role else " (the role of an EC2 instance is looked up only with --cloud)"
    )
    return _finding(
        "credentials",
        Level.PROBLEM,
        f"none were found{note}",
        "run `aws configure` or `aws sso login`, or set AWS_PROFILE",
    )


def _no_response(error: CloudError) -> CheckResult:
    if isinstance(error, Refused):
        return _finding(
            "credentials",
            Level.PROBLEM,
            f"AWS rejects them ({error.headline})",
            "renew them: `aws sso login`, or new keys with `aws configure`",
        )
    return _finding(
        "credentials",
        Level.PROBLEM,
        f"they cannot be verified: {error.headline}",
        "check the network, the proxy, and the files in ~/.aws",
    )
