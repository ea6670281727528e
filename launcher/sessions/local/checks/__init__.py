"""What a platform must refuse: requests that cannot run, found before anything is started."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from launcher.errors import PlatformError, Problem
from launcher.sessions.local.checks.fields import check_fields
from launcher.sessions.local.checks.inputs import check_inputs
from launcher.sessions.local.checks.job import check_groups, check_job, not_done

__all__ = ["check_request", "find_problems", "not_done"]


def check_request(request: Mapping[str, Any], uploads: Collection[str] = ()) -> None:
    """Raise one PlatformError with everything this machine cannot do of a request.

    uploads: the URIs of objects that will be there before the job starts.
    """
    problems = find_problems(request, uploads)
    if problems:
        raise PlatformError("\n".join(map(str, problems)))


def find_problems(request: Mapping[str, Any], uploads: Collection[str] = ()) -> list[Problem]:
    """Everything this machine cannot do of a request; uploads: see `check_request`."""
    return list(check_fields(request)) or [
        *check_job(request),
        *check_groups(request["ResourceConfig"]),
        *check_inputs(request, uploads),
    ]
