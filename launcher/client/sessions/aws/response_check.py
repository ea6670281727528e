"""Check every response before it is used: whoever answers, AWS or not, it has AWS's types.

boto reads a proxy's page with status 200 as a response without fields, fails inside its parsers on
values of other types, and passes scalars of any type on. The checks are handlers of botocore's
events, so no call is without them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeGuard
from xml.etree import ElementTree

from launcher.errors import Unreachable

#: Characters of a body that is not AWS's shown in the error.
_SHOWN = 60
#: What botocore's parsers raise for an answer of other types. Their only input is the answer.
_PARSER_ERRORS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
#: Seconds since the epoch of the years 1 and 9999, which datetime has.
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0

NETWORK_FIX = "check the network, the proxy, and AWS_ENDPOINT_URL if it is set"


def foreign_response(operation: str, what: str) -> Unreachable:
    """Return the error: what answers an operation is not AWS, or the response was damaged."""
    return Unreachable(
        f"what answers is not AWS, or its response is truncated: {operation} {what}\n"
        f"  fix: {NETWORK_FIX}"
    )


def check_responses(client: Any) -> None:
    """Let a client of boto raise Unreachable for every response that is not AWS's."""
    client.meta.events.register("before-parse.*.*", check_body)
    client.meta.events.register("after-call.*.*", check_members)


def check_body(operation_model: Any, response_dict: Mapping[str, Any], **_more: Any) -> None:
    """Handle botocore's before-parse event; raise Unreachable for a body that is not AWS's."""
    if operation_model.has_streaming_output:
        return  # an object's content, which check_members judges by its headers
    from botocore.parsers import ResponseParserError

    try:
        members = _parsed(operation_model, response_dict)
    except (*_PARSER_ERRORS, ElementTree.ParseError, ResponseParserError) as error:
        text = " ".join(response_dict["body"].decode(errors="replace").split())
        raise foreign_response(operation_model.name, f"got {text[:_SHOWN]!r}") from error
    if members and (problem := next(_problems(operation_model.output_shape, members, ""), None)):
        raise foreign_response(operation_model.name, f"has {problem}")


def check_members(http_response: Any, parsed: Mapping[str, Any], model: Any, **_more: Any) -> None:
    """Handle botocore's after-call event; raise Unreachable without the fields that we read."""
    if http_response.status_code < 300 and (missing := _missing_member(model.name, parsed)):
        if model.has_streaming_output:  # nobody else will read it, nor close its connection
            parsed["Body"].close()
        raise foreign_response(model.name, f"has no {missing}")


def _parsed(operation_model: Any, response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a JSON response; {} for others, which botocore's parser gives types.

    A small response is parsed twice, to learn of all that its parser raises: _PARSER_ERRORS, which
    are raised for a response to another operation, too.
    """
    from botocore.parsers import create_parser

    body, shape = response["body"], operation_model.output_shape
    is_success = response["status_code"] < 300
    service = operation_model.service_model
    # botocore before 1.35 has one protocol, later versions resolve it.
    protocol = getattr(service, "resolved_protocol", service.metadata["protocol"])
    if is_success and protocol == "json":
        members = json.loads(body) if body or (shape and shape.members) else {}
        if not isinstance(members, dict):
            raise TypeError("no object")
        return members if shape else {}
    if is_success and protocol in ("query", "ec2"):
        root = ElementTree.fromstring(body)
        if root.tag.rpartition("}")[2] != f"{operation_model.name}Response":
            raise ValueError(root.tag)
    create_parser(protocol).parse(response, shape)
    return {}


def _problems(shape: Any, value: object, path: str) -> Iterator[str]:
    """Yield each value of another type than its shape has, for a sentence.

    null is an absent member, as in botocore, but no element of a list or a map.
    """
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        for name, member in shape.members.items():
            key = member.serialization.get("name", name)
            if value.get(key) is not None:
                yield from _problems(member, value[key], f"{path}.{key}".lstrip("."))
    elif kind == "list" and isinstance(value, list):
        for number, element in enumerate(value):
            yield from _problems(shape.member, element, f"{path}[{number}]")
    elif kind == "map" and isinstance(value, dict):
        for key, element in value.items():
            yield from _problems(shape.value, element, f"{path}[{key!r}]")
    elif kind not in _IS_OF or not _IS_OF[kind](value):
        text = repr(value)
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        yield f"{shown} as {path}, which is a {kind}"


def _is_number(value: object) -> TypeGuard[int | float]:
    """Return True for a finite number; an integer may have more digits than a float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max


def _is_integer(value: object) -> bool:
    return _is_number(value) and abs(value) < 1 << 63 and value == int(value)


def _is_time(value: object) -> bool:
    """Return True for seconds since the epoch, or a date as botocore reads them."""
    if not isinstance(value, str):
        return _is_number(value) and _FIRST <= value <= _LAST
    from botocore.utils import parse_timestamp

    try:
        return bool(parse_timestamp(value))
    except _PARSER_ERRORS:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


#: Checks of scalars, by the kind of their shape.
_IS_OF: Mapping[str, Callable[[object], bool]] = {
    "string": _is_text,
    "blob": _is_text,
    "character": _is_text,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "long": _is_integer,
    "float": _is_number,
    "double": _is_number,
    "timestamp": _is_time,
}

#: Members of AWS's responses without which Launcher cannot go on, by operation.
#:
#: AWS always sends them, whether or not botocore's model marks them as required. A path is dotted,
#: and required where its parent is given; [] stands for every element of a list.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    # SageMaker
    "CreateTrainingJob": ("TrainingJobArn",),
    "DescribeTrainingJob": (
        "TrainingJobName",
        "TrainingJobArn",
        "TrainingJobStatus",
        "SecondaryStatus",
        "CreationTime",
        "SecondaryStatusTransitions[].Status",
        "SecondaryStatusTransitions[].StartTime",
        "AlgorithmSpecification.MetricDefinitions[].Name",
        "AlgorithmSpecification.MetricDefinitions[].Regex",
        "InputDataConfig[].ChannelName",
        "InputDataConfig[].DataSource",
        "ResourceConfig.InstanceGroups[].InstanceGroupName",
    ),
    "ListTrainingJobs": (
        "TrainingJobSummaries",
        "TrainingJobSummaries[].TrainingJobName",
        "TrainingJobSummaries[].TrainingJobStatus",
        "TrainingJobSummaries[].CreationTime",
    ),
    "DescribeNotebookInstance": ("RoleArn",),
    # CloudWatch
    "DescribeLogStreams": ("logStreams", "logStreams[].logStreamName"),
    "GetLogEvents": ("events", "nextForwardToken"),
    "GetMetricStatistics": ("Datapoints", "Datapoints[].Timestamp", "Datapoints[].Average"),
    "GetMetricData": (
        "MetricDataResults",
        "MetricDataResults[].Id",
        "MetricDataResults[].Timestamps",
        "MetricDataResults[].Values",
    ),
    # identity
    "GetCallerIdentity": ("Arn",),
    "GetRole": ("Role", "Role.Arn"),
    # what `launcher check` and `launcher plan types --update` read
    "ListServiceQuotas": ("Quotas",),
    "DescribeImages": ("imageDetails",),
    "DescribeInstanceTypes": ("InstanceTypes",),
    "DescribeSubnets": ("Subnets", "Subnets[].SubnetId", "Subnets[].VpcId"),
    "DescribeSecurityGroups": (
        "SecurityGroups",
        "SecurityGroups[].GroupId",
        "SecurityGroups[].VpcId",
        "SecurityGroups[].IpPermissions[].IpProtocol",
        "SecurityGroups[].IpPermissionsEgress[].IpProtocol",
    ),
    "ListObjectsV2": ("IsTruncated", "Contents[].Key", "Contents[].Size"),
    # S3: the tag of an object that was stored or read; a proxy's page has none
    "PutObject": ("ETag",),
    "UploadPart": ("ETag",),
    "CreateMultipartUpload": ("UploadId",),
    "CompleteMultipartUpload": ("ETag",),
    "CopyObject": ("CopyObjectResult", "CopyObjectResult.ETag"),
    "HeadObject": ("ETag", "ContentLength"),
    "GetObject": ("ETag",),
}


def _missing_member(operation: str, response: Mapping[str, Any]) -> str | None:
    """Return the path of the first required member that is absent, empty, or has no time zone."""
    for path in _REQUIRED.get(operation, ()):
        if not all(map(_is_given, _found(response, path.split(".")))):
            return path
    return None


def _found(value: Any, path: list[str]) -> Iterator[Any]:
    """Yield the values at a path, None for the last name; nothing below an absent parent."""
    if not path:
        yield value
        return
    name, rest = path[0], path[1:]
    member = value.get(name.removesuffix("[]"))
    if name.endswith("[]"):
        for element in member or ():
            yield from _found(element, rest)
    elif rest and member is None:
        return
    else:
        yield from _found(member, rest)


def _is_given(value: object) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return value is not None and value != ""
