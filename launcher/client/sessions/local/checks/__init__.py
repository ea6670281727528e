"""Checks of a request before anything is started: find what the local platform must refuse."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from launcher.client.sessions.local.checks.credential_checks import check_credentials
from launcher.client.sessions.local.checks.ignored_fields import ignored_field_notes
from launcher.client.sessions.local.checks.input_checks import check_inputs
from launcher.client.sessions.local.checks.required_fields import check_fields
from launcher.client.sessions.local.checks.secret_checks import check_secrets
from launcher.client.sessions.local.checks.value_checks import check_groups, check_job
from launcher.client.sessions.local.isolation_level import Isolation
from launcher.client.sessions.local.local_platform import LOCAL_PLATFORM
from launcher.errors import PlatformError, Problem, RequestRefused

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest

#: The channel with SDK v3's programs; the name is reserved for them.
_DRIVERS = "sm_drivers"

__all__ = ["check_isolation", "check_request", "find_problems", "ignored_field_notes"]


def check_request(
    request: TrainingJobRequest,
    uploads: Collection[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise one RequestRefused with everything that this machine cannot do of a request.

    uploads: the URIs of objects that will be stored before the job starts.
    environment: the variables that the platform process has in addition to ours.
    """
    problems = find_problems(request, uploads, environment)
    if problems:
        raise RequestRefused(problems)


def find_problems(
    request: TrainingJobRequest,
    uploads: Collection[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> list[Problem]:
    """Return everything that this machine cannot do of a request; arguments as `check_request`."""
    own = [*_system(), *check_fields(request)] or [
        *check_job(request),
        *check_groups(request["ResourceConfig"]),
        *check_inputs(request, uploads),
        *check_credentials(request, environment),
        *check_secrets(request, environment),
    ]
    return [*own, *_limits(request, own)]


def _system() -> Iterator[Problem]:
    """Yield a problem on a machine without Linux, from which jobs for AWS can be submitted."""
    system = sys.platform  # mypy takes the test of sys.platform itself for always false
    if not system.startswith("linux"):
        yield Problem(
            what=f"local jobs need Linux, but this is {system}",
            where="this machine",
            fix="run the job on AWS, or on a machine with Linux",
        )


def _limits(request: TrainingJobRequest, own: Collection[Problem]) -> Iterator[Problem]:
    """Yield the request's violations of SageMaker's limits, but for fields with an own problem."""
    reported = "\n".join(map(str, own))
    for found in LOCAL_PLATFORM.judge(request):
        if not any(isinstance(part, str) and part in reported for part in found.path):
            yield found


def check_isolation(request: TrainingJobRequest, isolation: Isolation) -> None:
    """Raise PlatformError if a request's programs need /opt/ml and the isolation has none."""
    names = {channel["ChannelName"] for channel in request.get("InputDataConfig", ())}
    if isolation is Isolation.PROCESS and _DRIVERS in names:
        raise PlatformError(
            f"the programs in the channel {_DRIVERS!r} (SDK v3 sends them) find their files below "
            "/opt/ml only, which hosts have with isolation 'sandbox' or 'network'"
        )
