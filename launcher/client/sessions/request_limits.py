"""SageMaker's limits on a request, as they apply to a platform that rents nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launcher.client.request import Violation
    from launcher.errors import FieldPath
    from launcher.shared import TrainingJobRequest


def violations_without_aws(request: TrainingJobRequest, *, scheme: str) -> tuple[Violation, ...]:
    """Return the errors of a request against SageMaker's limits that hold off AWS too.

    There a location may be a URI of the platform's own `scheme`, and any instance type is allowed.
    """
    from launcher.client.request import UnknownType, find_violations  # not for shell completion

    return tuple(
        found
        for found in find_violations(request)
        if not (
            found.is_warning
            or isinstance(found, UnknownType)  # nothing is rented
            or _has_scheme(request, found.path, scheme)
        )
    )


def _has_scheme(request: TrainingJobRequest, path: FieldPath, scheme: str) -> bool:
    value: Any = request
    try:
        for key in path:
            value = value[key]
    except (KeyError, IndexError, TypeError):  # a field that is absent
        return False
    return isinstance(value, str) and value.startswith(f"{scheme}://")
