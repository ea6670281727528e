"""Detect responses that do not come from AWS: a proxy's page with status 200, or a truncated one.

boto reads both as a response without fields, or fails with errors of its own parsers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

from launcher.errors import Unreachable

#: Characters of such a response shown in the error.
_SHOWN = 60


def reject_foreign_response(
    operation_model: Any, response_dict: Mapping[str, Any], **_more: Any
) -> None:
    """Handle botocore's before-parse event; raise Unreachable for a response that is not AWS's.

    S3 is left alone: object contents are not parsed here, and boto itself retries S3.
    """
    if response_dict["status_code"] >= 300 or operation_model.service_model.service_name == "s3":
        return
    body = response_dict["body"]
    is_whole = _IS_COMPLETE.get(_protocol(operation_model.service_model))
    if is_whole and not is_whole(body, operation_model):
        begin = " ".join(body.decode(errors="replace").split())[:_SHOWN]
        raise Unreachable(
            f"the response is not from AWS, or is truncated: {operation_model.name} got {begin!r}\n"
            "  fix: check the network, the proxy, and AWS_ENDPOINT_URL if it is set"
        )


def _protocol(service_model: Any) -> str:
    """Return a service's protocol; botocore before 1.35 has one, later versions resolve it."""
    return str(getattr(service_model, "resolved_protocol", service_model.metadata["protocol"]))


def _is_json_object(body: bytes, operation_model: Any) -> bool:
    if not body:
        return not (operation_model.output_shape and operation_model.output_shape.members)
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
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
