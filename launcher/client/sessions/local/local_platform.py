"""This machine's description of itself, and SageMaker's limits as they apply to a local job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.client.request.validation import Violation, find_violations
from launcher.client.request.validation.violations import RequestPath
from launcher.client.sessions.base import Platform
from launcher.errors import Unreachable

if TYPE_CHECKING:
    from launcher.client.request.training_job_types import TrainingJobRequest


def local_violations(request: TrainingJobRequest) -> tuple[Violation, ...]:
    """Return the errors of a request against SageMaker's limits that hold on this machine too.

    Here a location may be a file:// URI, and no instance type is rented.
    """
    return tuple(
        found
        for found in find_violations(request)
        if not (found.is_warning or _is_allowed_here(request, found.path))
    )


def _is_allowed_here(request: TrainingJobRequest, path: RequestPath) -> bool:
    if path[-1] == "InstanceType":
        return True
    value: Any = request
    try:
        for step in path:
            value = value[step]
    except (KeyError, IndexError, TypeError):  # a field that is absent
        return False
    return isinstance(value, str) and value.startswith("file://")


THIS_MACHINE = Platform(
    name="local",
    bills=False,
    uri_scheme="file",
    reads_files=True,
    judge=local_violations,
    is_transient=lambda error: isinstance(error, Unreachable),
)
