"""List operations of resources that the endpoint does not have, such as tuning jobs: no entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.client.endpoint.api_error import ApiError
from launcher.client.endpoint.api_model import operation_model
from launcher.client.endpoint.job_operations import not_found
from launcher.client.endpoint.next_token import refuse_token
from launcher.client.request.validation.service_model import service_model

if TYPE_CHECKING:
    from botocore.model import OperationModel


def is_list(name: str) -> bool:
    """Return True for the name of one of SageMaker's list operations."""
    return name.startswith("List") and name in service_model().operation_names


def list_nothing(name: str, arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the empty page of a list; raise ApiError for a list below a resource: it is absent."""
    model = operation_model(name)
    if _has_parent(model):
        raise _absent_parent(model)
    refuse_token(arguments)
    return {
        field: []
        for field, shape in model.output_shape.members.items()
        if shape.type_name == "list"
    }


def _has_parent(model: OperationModel) -> bool:
    """Return True if a list requires the name of a resource; an enumeration is a mere filter."""
    shape = model.input_shape
    return any(not getattr(shape.members[name], "enum", ()) for name in shape.required_members)


def _absent_parent(model: OperationModel) -> ApiError:
    if any(shape.name == "ResourceNotFound" for shape in model.error_shapes):
        return ApiError("ResourceNotFound", not_found().message)
    return not_found()
