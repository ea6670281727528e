"""Members of AWS's responses without which Launcher cannot go on, by operation.

AWS always sends them, whether or not botocore's model marks them as required. A path is dotted, and
required where its parent is given; [] stands for every element of a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

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
    # what `launcher check` and `launcher catalog update` read
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


def missing_member(operation: str, response: Mapping[str, Any]) -> str | None:
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
