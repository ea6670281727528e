"""What a platform must refuse: requests that cannot run, found before anything is started."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from launcher.errors import PlatformError
from launcher.sessions.local.checks.fields import check_fields
from launcher.sessions.local.checks.inputs import check_inputs
from launcher.sessions.local.checks.job import check_groups, check_job, not_done

__all__ = ["check_request", "not_done"]


def check_request(request: Mapping[str, Any], uploads: Collection[str] = ()) -> None:
    """Raise one PlatformError with everything this machine cannot do of a request.

    uploads: the URIs of objects that will be there before the job starts.
    """
    problems = list(check_fields(request)) or [
        *check_job(request),
        *check_groups(request["ResourceConfig"]),
        *check_inputs(request, uploads),
    ]
    if problems:
        raise PlatformError("\n".join(map(str, problems)))
