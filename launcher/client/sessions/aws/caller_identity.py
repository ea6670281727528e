"""The caller's identity, and the role that a job runs as."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.response_check import foreign_response
from launcher.client.sessions.aws.transient_errors import is_transient, retry
from launcher.client.sessions.retry_policy import RetryPolicy
from launcher.errors import CloudError, Problem, Refused, SpecError

#: Written by SageMaker in Studio and notebook instances; SDK v2 reads the same file.
NOTEBOOK_METADATA = Path("/opt/ml/metadata/resource-metadata.json")
_CALLER = re.compile(r"arn:[^:]+:(iam|sts)::\d{12}:.+")
_ASSUMED = re.compile(r"arn:[^:]+:sts::\d+:assumed-role/(?P<name>[^/]+)/")
#: Prefix of the roles of IAM Identity Center users, which no service may assume.
_IDENTITY_CENTER_PREFIX = "AWSReservedSSO_"
_RETRY_POLICY = RetryPolicy(seconds=20)
Notify = Callable[[str], None]


def caller_arn(clients: Clients, notify: Notify | None = None) -> str:
    """Return the ARN that the credentials belong to; `notify` is called before each retry."""

    def call() -> str:
        with clients.client("sts") as sts:
            arn = str(sts.get_caller_identity()["Arn"])
        if _CALLER.match(arn) is None:
            raise foreign_response("GetCallerIdentity", f"names the caller {arn[:60]!r}")
        return arn

    return retry(call, _RETRY_POLICY, is_transient, notify)


def assumed_role(caller: str) -> str | None:
    """Return the name of the role that a caller has assumed; None for a user."""
    assumed = _ASSUMED.match(caller)
    return assumed["name"] if assumed else None


def account_of(arn: str) -> str:
    """Return the account number in an ARN."""
    return arn.split(":")[4]


def role_arn(
    clients: Clients,
    role: str | None,
    metadata: Path = NOTEBOOK_METADATA,
    notify: Notify | None = None,
) -> str:
    """Return the ARN of a role; without one, that of the notebook's or our own assumed role.

    Raises SpecError for a role that does not exist, and for a caller without a role.
    """
    if role is not None:
        return role if role.startswith("arn:") else _named_role(clients, role, notify)
    return _notebook_role(clients, metadata) or _own_role(clients, notify)


def _named_role(clients: Clients, name: str, notify: Notify | None) -> str:
    try:
        return _look_up(clients, name.rpartition("/")[2], notify)
    except Refused as error:
        if error.code != "NoSuchEntity":
            error.add(f"  or use the ARN of the role {name} instead of its name")
            raise
        what = f"there is no IAM role {name!r} in this account"
        fix = "check the name, or use the role's ARN"
        raise SpecError([Problem(what=what, where="role", fix=fix)]) from error


def _look_up(clients: Clients, name: str, notify: Notify | None) -> str:
    def call() -> str:
        with clients.client("iam") as iam:
            return str(iam.get_role(RoleName=name)["Role"]["Arn"])

    return retry(call, _RETRY_POLICY, is_transient, notify)


def _notebook_role(clients: Clients, metadata: Path) -> str | None:
    """Return the execution role of the Studio space or notebook instance that we run in."""
    try:
        here = json.loads(metadata.read_text())
    except (OSError, ValueError):
        return None
    if arn := here.get("ExecutionRoleArn"):
        return str(arn)
    if "DomainId" in here or "ResourceName" not in here:
        return None
    try:
        with clients.client("sagemaker") as sagemaker:
            name = here["ResourceName"]
            return str(sagemaker.describe_notebook_instance(NotebookInstanceName=name)["RoleArn"])
    except Refused:
        return None  # our own assumed role is the same; only its path is harder to find


def _own_role(clients: Clients, notify: Notify | None) -> str:
    caller = caller_arn(clients, notify)
    own = assumed_role(caller)
    if own is None or own.startswith(_IDENTITY_CENTER_PREFIX):
        what = f"the job names no role, and SageMaker cannot assume {caller}"
        fix = "set role to the name or ARN of an IAM role that trusts sagemaker.amazonaws.com"
        raise SpecError([Problem(what=what, where="role", fix=fix)])
    try:
        return _look_up(clients, own, notify)
    except CloudError as error:
        what = f"the job names no role, and the ARN of your own role {own} cannot be read"
        fix = f"set role to its ARN ({error.headline})"
        raise SpecError([Problem(what=what, where="role", fix=fix)]) from error
