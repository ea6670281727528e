"""AWS's values in DescribeTrainingJob for what a request left out.

Source: answers of SageMaker that are public, and "Defaults to" in the API reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]

_JOB = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
    "ProfilingStatus": "Disabled",
}
_STOPPING_CONDITION = {"MaxRuntimeInSeconds": 24 * 3600}
_CHANNEL = {"CompressionType": "None", "RecordWrapperType": "None"}
_S3_SOURCE = {"S3DataDistributionType": "FullyReplicated"}
#: SDK v2's `attach` reads KmsKeyId without asking whether it is there.
_OUTPUT = {"KmsKeyId": "", "CompressionType": "GZIP"}


def with_aws_defaults(document: Document) -> dict[str, object]:
    """Return a job's document with AWS's values for absent fields."""
    described: dict[str, object] = {**_JOB, **document}
    described["AlgorithmSpecification"] = _algorithm(document["AlgorithmSpecification"])
    described["OutputDataConfig"] = {**_OUTPUT, **document["OutputDataConfig"]}
    described["StoppingCondition"] = {**_STOPPING_CONDITION, **document["StoppingCondition"]}
    if "InputDataConfig" in document:
        described["InputDataConfig"] = [_channel(each) for each in document["InputDataConfig"]]
    return described


def _algorithm(algorithm: Mapping[str, object]) -> dict[str, object]:
    """Add the time series of metrics, which SageMaker generates for a job that defines metrics."""
    has_metrics = bool(algorithm.get("MetricDefinitions"))
    return {"EnableSageMakerMetricsTimeSeries": has_metrics, **algorithm}


def _channel(channel: Document) -> dict[str, object]:
    source = channel["DataSource"]
    if "S3DataSource" in source:
        source = {**source, "S3DataSource": {**_S3_SOURCE, **source["S3DataSource"]}}
    return {**_CHANNEL, **channel, "DataSource": source}
