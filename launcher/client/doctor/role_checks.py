"""The job's IAM role: it must exist, and SageMaker must be trusted to assume it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from launcher.client.doctor.aws_checks import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions.aws.caller_identity import assumed_role
from launcher.client.sessions.aws.error_translation import translated
from launcher.errors import CloudError, Refused

_SAGEMAKER = "sagemaker.amazonaws.com"
_ARN = re.compile(r"arn:[^:]+:iam::(?P<account>\d+):role/(?:.+/)?(?P<name>[^/]+)")


def check(connection: Connection, role: str | None, caller: str) -> CheckResult:
    """Check a job's role, given by name or ARN; if it names none, check the caller's own role."""
    named = role or assumed_role(caller)  # a notebook and its jobs share a role
    if named is None:
        return _finding(
            Level.WARNING,
            "no job file names one, and it cannot be guessed from who you are",
            "write role: ARN into the job file",
        )
    guessed = "" if role else " (a guess: it is your own)"
    arn = _ARN.fullmatch(named)
    if arn and arn["account"] not in caller.split(":"):
        return _finding(Level.WARNING, f"{named} is another account's and cannot be seen from here")
    try:
        with translated():
            answer = connection.client("iam").get_role(RoleName=arn["name"] if arn else named)
    except Refused as error:
        return _not_seen(named + guessed, error)
    except CloudError as error:
        return _finding(Level.WARNING, f"{named} cannot be seen from here: {error.headline}")
    return _judged(named + guessed, answer["Role"])


def _not_seen(named: str, error: Refused) -> CheckResult:
    if error.code == "NoSuchEntity":
        return _finding(
            Level.PROBLEM,
            f"there is no role {named}",
            f"name one that exists, with {_SAGEMAKER} as its trusted service",
        )
    return _finding(Level.WARNING, f"{named} cannot be seen from here ({error.headline})")


def _judged(named: str, role: Mapping[str, Any]) -> CheckResult:
    statements = role["AssumeRolePolicyDocument"].get("Statement", [])
    if any(_trusts_sagemaker(statement) for statement in _listed(statements)):
        return _finding(Level.OK, f"{named}, which SageMaker may assume")
    return _finding(
        Level.PROBLEM,
        f"{named} does not trust SageMaker: no statement lets {_SAGEMAKER} assume it",
        f'add {{"Service": "{_SAGEMAKER}"}} as a Principal of sts:AssumeRole to its trust policy',
    )


def _trusts_sagemaker(statement: Mapping[str, object]) -> bool:
    principal = statement.get("Principal", {})
    services = _listed(principal.get("Service", [])) if isinstance(principal, Mapping) else []
    actions = _listed(statement.get("Action", []))
    return (
        statement.get("Effect") == "Allow"
        and _SAGEMAKER in services
        and any(action in ("sts:AssumeRole", "sts:*", "*") for action in actions)
    )


def _listed(value: Any) -> list[Any]:
    """Return a list; IAM omits the list around a single item."""
    return value if isinstance(value, list) else [value]


def _finding(level: Level, what: str, fix: str | None = None) -> CheckResult:
    return CheckResult(part=CheckSection.AWS, subject="role", level=level, what=what, fix=fix)
