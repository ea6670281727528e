"""Check every response before it is used: whoever answers, AWS or not, it has AWS's types.

boto reads a proxy's page with status 200 as a response without fields, fails inside its parsers on
values of other types, and passes scalars of any type on. The checks are handlers of botocore's
events, so no call is without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

from launcher.client.sessions.aws.foreign_response import foreign_response
from launcher.client.sessions.aws.required_members import missing_member
from launcher.client.sessions.aws.response_types import type_problem

#: Characters of such a response shown in the error.
_SHOWN = 60
#: What botocore's parsers raise for an answer of other types. Their only input is the answer.
_PARSER_ERRORS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def check_responses(client: Any) -> None:
    """Let a client of boto raise Unreachable for every response that is not AWS's."""
    client.meta.events.register("before-parse.*.*", check_body)
    client.meta.events.register("after-call.*.*", check_members)


def check_body(operation_model: Any, response_dict: Mapping[str, Any], **_more: Any) -> None:
    """Handle botocore's before-parse event; raise Unreachable for a body that is not AWS's."""
    if operation_model.has_streaming_output:
        return  # an object's content, which check_members judges by its headers
    protocol = _protocol(operation_model.service_model)
    if response_dict["status_code"] < 300:
        is_whole = _IS_COMPLETE.get(protocol)
        if is_whole and not is_whole(response_dict["body"], operation_model):
            raise foreign_response(operation_model.name, f"got {_beginning(response_dict)}")
    if protocol == "json" and response_dict["status_code"] < 300:
        _check_types(operation_model, response_dict["body"])
    else:
        _try_to_parse(protocol, operation_model, response_dict)


def check_members(http_response: Any, parsed: Mapping[str, Any], model: Any, **_more: Any) -> None:
    """Handle botocore's after-call event; raise Unreachable without the fields that we read."""
    if http_response.status_code < 300 and (missing := missing_member(model.name, parsed)):
        if model.has_streaming_output:  # nobody else will read it, nor close its connection
            parsed["Body"].close()
        raise foreign_response(model.name, f"has no {missing}")


def _check_types(operation_model: Any, body: bytes) -> None:
    """Compare a JSON response with the service's model, so that botocore can parse it."""
    shape = operation_model.output_shape
    if shape is not None and body and (problem := type_problem(shape, json.loads(body))):
        raise foreign_response(operation_model.name, f"has {problem}")


def _try_to_parse(protocol: str, operation_model: Any, response: Mapping[str, Any]) -> None:
    """Parse a small response once more, to learn of all that its parser raises."""
    from botocore.parsers import ResponseParserError, create_parser

    try:
        create_parser(protocol).parse(response, operation_model.output_shape)
    except (*_PARSER_ERRORS, ResponseParserError) as error:
        raise foreign_response(operation_model.name, f"got {_beginning(response)}") from error


def _beginning(response: Mapping[str, Any]) -> str:
    return repr(" ".join(response["body"].decode(errors="replace").split())[:_SHOWN])


def _protocol(service_model: Any) -> str:
    """Return a service's protocol; botocore before 1.35 has one, later versions resolve it."""
    return str(getattr(service_model, "resolved_protocol", service_model.metadata["protocol"]))


def _is_json_object(body: bytes, operation_model: Any) -> bool:
    if not body:
        return not (operation_model.output_shape and operation_model.output_shape.members)
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def _is_xml_answer(body: bytes, operation_model: Any) -> bool:
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        return False
    return root.tag.rpartition("}")[2] == f"{operation_model.name}Response"


_IS_COMPLETE: Mapping[str, Callable[[bytes, Any], bool]] = {
    "json": _is_json_object,
    "query": _is_xml_answer,
    "ec2": _is_xml_answer,
}
