"""SageMaker's API as botocore models it: checks of requests and of responses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from botocore.validate import ParamValidator

from launcher.client.endpoint.api_error import Refusal, invalid
from launcher.client.request.validation import aws_answer, find_violations
from launcher.client.request.validation.model_limits import find_violations_of
from launcher.client.request.validation.service_model import service_model

if TYPE_CHECKING:
    from botocore.model import OperationModel, Shape

    from launcher.shared.training_job_types import TrainingJobRequest

#: Required by the model, but AWS omits it until there are any (observed in AWS's responses).
_OFTEN_ABSENT = 'Missing required parameter in input: "ModelArtifacts"'


def operation_model(name: str) -> OperationModel:
    """Return botocore's model of an operation."""
    return service_model().operation_model(name)


def answered(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document as an operation answers it: only its fields, with times in epoch seconds.

    Raises Refusal (InternalFailure) for an absent required field or a value of another type.
    """
    shape = operation_model(name).output_shape
    if shape is None:
        return {}
    answer: dict[str, Any] = _shaped(document, shape)
    complaints = set(_complaints(answer, shape)) - {_OFTEN_ABSENT}
    if complaints:
        raise Refusal("InternalFailure", f"the answer of {name}: {sorted(complaints)}", 500)
    return answer


def _shaped(value: Any, shape: Shape) -> Any:
    if shape.type_name == "structure":
        return {
            name: _shaped(value[name], member)
            for name, member in shape.members.items()
            if value.get(name) is not None
        }
    if shape.type_name == "list":
        return [_shaped(each, shape.member) for each in value]
    if isinstance(value, datetime):
        return round(value.timestamp(), 3)
    return value


def taken(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that an operation defines; ignore unknown ones, as AWS does.

    Raises Refusal: SerializationException for a value of another type, ValidationException for what
    the model or, for a new job, the rules between fields do not allow.
    """
    shape = operation_model(name).input_shape
    known: dict[str, Any] = _known(arguments, shape)
    for complaint in _complaints(known, shape):
        if complaint.startswith("Invalid type"):
            raise Refusal("SerializationException", complaint)
    is_new_job = name == "CreateTrainingJob"
    found = (
        find_violations(cast("TrainingJobRequest", known))
        if is_new_job
        else find_violations_of(shape, known)
    )
    if message := aws_answer(found):
        raise invalid(message)
    return known


def _complaints(value: object, shape: Shape) -> list[str]:
    report: str = ParamValidator().validate(value, shape).generate_report()
    return report.splitlines()


def _known(value: Any, shape: Shape) -> Any:
    """Return the parts of a value that a shape defines, in the order in which they were sent."""
    if shape.type_name == "structure" and isinstance(value, Mapping):
        return {
            name: _known(each, shape.members[name])
            for name, each in value.items()
            if name in shape.members and each is not None
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_known(each, shape.member) for each in value]
    return value
