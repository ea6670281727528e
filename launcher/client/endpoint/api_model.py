"""SageMaker's API as botocore models it: checks of requests and of responses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from botocore.utils import parse_to_aware_datetime
from botocore.validate import ParamValidator

from launcher.client.endpoint.responses import ApiError, validation_error
from launcher.client.request import aws_answer, find_violations, find_violations_of, service_model

if TYPE_CHECKING:
    from botocore.model import OperationModel, Shape

    from launcher.shared import TrainingJobRequest


def operation_model(name: str) -> OperationModel:
    """Return botocore's model of an operation."""
    return service_model().operation_model(name)


def to_output(name: str, document: Mapping[str, object]) -> dict[str, Any]:
    """Return the document as an operation answers it: only its fields, with times in epoch seconds.

    Raises ApiError (InternalFailure) for an absent required field or a value of another type.
    """
    shape = operation_model(name).output_shape
    if shape is None:
        return {}
    output: dict[str, Any] = _to_shape(document, shape)
    if errors := _model_errors(output, shape):
        raise ApiError("InternalFailure", f"the output of {name}: {errors}", 500)
    return output


def _to_shape(value: Any, shape: Shape) -> Any:
    if shape.type_name == "structure":
        return {
            name: _to_shape(value[name], member)
            for name, member in shape.members.items()
            if value.get(name) is not None
        }
    if shape.type_name == "list":
        return [_to_shape(each, shape.member) for each in value]
    if isinstance(value, datetime):
        return round(value.timestamp(), 3)
    return value


def parse_input(name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments that an operation defines; ignore unknown ones, as AWS does.

    Raises ApiError: SerializationException for a value of another type, ValidationException for
    what the model or, for a new job, the rules between fields do not allow.
    """
    shape = operation_model(name).input_shape
    known: dict[str, Any] = _known_fields(arguments, shape)
    for error in _model_errors(known, shape):
        if error.startswith("Invalid type"):
            raise ApiError("SerializationException", error)
    is_new_job = name == "CreateTrainingJob"
    found = (
        find_violations(cast("TrainingJobRequest", known))
        if is_new_job
        else find_violations_of(shape, known)
    )
    if message := aws_answer(found):
        raise validation_error(message)
    return known


def _model_errors(value: object, shape: Shape) -> list[str]:
    report: str = ParamValidator().validate(value, shape).generate_report()
    return report.splitlines()


def _known_fields(value: object, shape: Shape) -> Any:
    """Return the parts of a value that a shape defines, in the order in which they were sent."""
    if shape.type_name == "structure" and isinstance(value, Mapping):
        return {
            name: _known_fields(each, shape.members[name])
            for name, each in value.items()
            if name in shape.members and each is not None
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_known_fields(each, shape.member) for each in value]
    return _seconds(value) if shape.type_name == "timestamp" else value


def _seconds(value: object) -> float:
    """Return a time in seconds since the epoch; a client may send a number or ISO 8601."""
    try:
        return float(parse_to_aware_datetime(value).timestamp())
    except (ValueError, TypeError, AttributeError, OverflowError, RuntimeError) as error:
        raise ApiError("SerializationException", f"{value!r} is not a time") from error
