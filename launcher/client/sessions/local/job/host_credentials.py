"""Secrets of a local job, and AWS credentials, which its hosts get on request; by default none.

The values of secrets are in the environment of the user who sends the job. The client reads the
credentials when it creates the job, and gives them to its platform process in a variable of that
process's environment: they are on no command line, and in no file of the job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from launcher.client.sessions.local.job.job_description import REGION
from launcher.errors import CloudError, PlatformError
from launcher.shared import (
    FROM_ENVIRONMENT,
    SECRET_PREFIX,
    SecretMask,
    secret_sources,
    secret_variables_of,
)

if TYPE_CHECKING:
    import boto3

    from launcher.shared import TrainingJobRequest


#: The variable of the platform process: a JSON object of the variables that hosts get.
HOST_CREDENTIALS = "LAUNCHER_HOST_CREDENTIALS"

_ID, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
#: Where programs find another service than AWS's own, such as an endpoint on this machine.
_ENDPOINTS = "AWS_ENDPOINT_URL"
_REGION = "AWS_DEFAULT_REGION"
_LOOPBACK = ("localhost", "127.", "[::1]")
#: What GetSessionToken takes, and the time that a job may need before and after its training.
_SHORTEST, _LONGEST, _STAGING = 900, 129_600, 3600
_DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class HostCredentials:
    """The variables that give a job's hosts credentials; ends: when those do, if that is known."""

    variables: dict[str, str]
    ends: datetime | None

    @property
    def note(self) -> str:
        """The note of a job about them; nobody renews them."""
        known = self.ends and f"{self.ends.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
        end = f"end at {known}" if known else "do not say when they end"
        return f"hosts have short-lived AWS credentials of yours, which {end} and are not renewed"


def read_credentials(
    request: TrainingJobRequest, own: Mapping[str, str], region: str
) -> HostCredentials:
    """Return short-lived credentials of the user for a job's hosts.

    Those of boto3 are given as they are if they are temporary, as by SDK v2; else AWS is asked for
    temporary ones (STS GetSessionToken). own: keys that the session was given, as by an endpoint
    on this machine, are given in their place.

    Raises PlatformError when there are none, and for a job whose own environment has others.
    """
    if {_ID, f"{SECRET_PREFIX}{_ID}"} & set(request.get("Environment", {})):
        raise PlatformError(
            f"the job's environment sets {_ID}, and credentials=True (--credentials) would, too: "
            "give one of the two"
        )
    import boto3  # slow to import; only jobs that pass credentials need it

    session = boto3.Session(region_name=own.get(_REGION))
    region = session.region_name or region
    ends = None
    if _ID in own:
        keys = {name: own[name] for name in (_ID, _SECRET, _TOKEN) if name in own}
    else:
        keys, ends = _temporary_keys(session, _seconds(request))
    variables = {**_endpoints(own), **keys, _REGION: region, "AWS_REGION": region}
    return HostCredentials(variables=variables, ends=ends)


def check_reach(own: Mapping[str, str]) -> None:
    """Raise PlatformError for an address of AWS's services that no container reaches."""
    for name, url in _endpoints(own).items():
        if urlsplit(url).netloc.startswith(_LOOPBACK):
            raise PlatformError(
                f"{name} is {url}, and a container does not reach the loopback of this machine: "
                "leave out --credentials, or use isolation 'sandbox' or 'process'"
            )


def _endpoints(own: Mapping[str, str]) -> dict[str, str]:
    environment = {**os.environ, **own}
    return {name: environment[name] for name in environment if name.startswith(_ENDPOINTS)}


def _temporary_keys(session: boto3.Session, seconds: int) -> tuple[dict[str, str], datetime | None]:
    """Return the variables of temporary keys, and when they end, if that is known."""
    from launcher.client.sessions.aws.error_translation import translate_errors

    region = session.region_name or REGION
    try:
        with translate_errors():
            found = session.get_credentials()
            keys = found and found.get_frozen_credentials()
            if keys and not keys.token:
                sts = session.client("sts", region_name=region)
                answer = sts.get_session_token(DurationSeconds=seconds)
                made = answer["Credentials"]
                return _of_answer(made), made["Expiration"]
    except CloudError as error:
        raise PlatformError(
            f"cannot make short-lived credentials for the job's hosts: {error}; or log in for "
            "temporary ones (aws sso login, or an assumed role), which are passed as they are"
        ) from error
    if not keys:
        raise PlatformError(
            "no AWS credentials are found, and the job's hosts are to get yours (--credentials): "
            "give some (`aws configure`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
        )
    given = {_ID: keys.access_key, _SECRET: keys.secret_key, _TOKEN: keys.token}
    return given, getattr(found, "_expiry_time", None)  # botocore shows it nowhere else


def _of_answer(keys: Mapping[str, Any]) -> dict[str, str]:
    return {
        _ID: keys["AccessKeyId"],
        _SECRET: keys["SecretAccessKey"],
        _TOKEN: keys["SessionToken"],
    }


def _seconds(request: TrainingJobRequest) -> int:
    """Return how long a job may need its credentials, within AWS's bounds."""
    longest = request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", _DAY)
    return max(_SHORTEST, min(longest + _STAGING, _LONGEST))


def given_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hosts get, in the platform process; none by default."""
    variables: dict[str, str] = json.loads(environment.get(HOST_CREDENTIALS, "{}"))
    return variables


def credential_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return those of the variables that no log may show."""
    given = given_credentials(environment)
    return {name: given[name] for name in (_SECRET, _TOKEN) if name in given}


def host_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a host, among them those that keep the secrets out of its logs."""
    secrets = credential_secrets(environment)
    marks = secret_variables_of(dict.fromkeys(secrets, FROM_ENVIRONMENT))
    return {**given_credentials(environment), **marks}


def secret_values(request: TrainingJobRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each secret that an environment has, whatever its source on AWS is."""
    names = secret_sources(request.get("Environment", {}))
    return {name: environment[name] for name in names if name in environment}


def secret_mask(request: TrainingJobRequest) -> SecretMask:
    """Return the mask of a job's secrets and credentials, which this process's environment has."""
    values = {**secret_values(request, os.environ), **credential_secrets(os.environ)}
    return SecretMask(values.values())
