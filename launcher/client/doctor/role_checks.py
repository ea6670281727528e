"""The job's IAM role: it must exist, and SageMaker must be trusted to assume it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from launcher.client.doctor.aws_connection import Connection
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions import assumed_role, translate_errors
from launcher.errors import CloudError, Refused

_finding = partial(CheckSection.AWS.finding, "role")

_SAGEMAKER = "sagemaker.amazonaws.com"
_ARN = re.compile(r"arn:[^:]+:iam::(?P<account>\d+):role/(?:.+/)?(?P<name>[^/]+)")


def check(connection: Connection, role: str | None, caller: str) -> CheckResult:
    """Check a job's role, given by name or ARN; if it names none, check the caller's own role."""
    role_name = role or assumed_role(caller)  # a notebook and its jobs share a role
    if role_name is None:
        return _finding(
            Level.WARNING,
            "the job names none, and your identity is not a role that the job could use",
            "set role: ARN in the job file",
        )
    note = "" if role else " (assumed: your own role)"
    arn = _ARN.fullmatch(role_name)
    if arn and arn["account"] not in caller.split(":"):
        return _finding(
            Level.WARNING, f"{role_name} is in another account and cannot be checked from here"
        )
    try:
        with translate_errors():
            response = connection.client("iam").get_role(RoleName=arn["name"] if arn else role_name)
    except Refused as error:
        return _not_visible(role_name + note, error)
    except CloudError as error:
        return _finding(Level.WARNING, f"{role_name} cannot be checked from here: {error.headline}")
    return _check_trust(role_name + note, response["Role"])


def _not_visible(role_name: str, error: Refused) -> CheckResult:
    if error.code == "NoSuchEntity":
        return _finding(
            Level.PROBLEM,
            f"the role {role_name} does not exist",
            f"use an existing role that trusts {_SAGEMAKER}",
        )
    return _finding(Level.WARNING, f"{role_name} cannot be checked from here ({error.headline})")


def _check_trust(role_name: str, role: Mapping[str, Any]) -> CheckResult:
    policy = role.get("AssumeRolePolicyDocument")
    statements = policy.get("Statement", []) if isinstance(policy, Mapping) else []
    if any(_trusts_sagemaker(statement) for statement in _as_list(statements)):
        return _finding(Level.OK, f"{role_name}, which SageMaker may assume")
    return _finding(
        Level.PROBLEM,
        f"{role_name} does not trust SageMaker: no statement allows {_SAGEMAKER} to assume it",
        f'add {{"Service": "{_SAGEMAKER}"}} as a Principal for sts:AssumeRole in its trust policy',
    )


def _trusts_sagemaker(statement: object) -> bool:
    if not isinstance(statement, Mapping):
        return False
    principal = statement.get("Principal", {})
    services = _as_list(principal.get("Service", [])) if isinstance(principal, Mapping) else []
    actions = _as_list(statement.get("Action", []))
    return (
        statement.get("Effect") == "Allow"
        and _SAGEMAKER in services
        and any(action in ("sts:AssumeRole", "sts:*", "*") for action in actions)
    )


def _as_list(value: object) -> list[Any]:
    """Return a list; IAM omits the list around a single item."""
    return value if isinstance(value, list) else [value]
