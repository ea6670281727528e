"""AWS's values in DescribeTrainingJob for what a request left out.

Source: answers of SageMaker that are public, and "Defaults to" in the API reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from launcher.shared import FAILURE_REASON_LIMIT
from launcher.shared.paths import LAUNCH_SCRIPT

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
#: How the local platform says that a host ended which has written no reason.
_UNEXPLAINED = re.compile(r"host algo-\d+( \([^)]*\))?: .*")
#: SDK v2's `attach` reads KmsKeyId without asking whether it is there.
_OUTPUT = {"KmsKeyId": "", "CompressionType": "GZIP"}


def with_aws_defaults(document: Document) -> dict[str, object]:
    """Return a job's document with AWS's values for absent fields."""
    described: dict[str, object] = {**_JOB, "ModelArtifacts": _model(document), **document}
    described["AlgorithmSpecification"] = _algorithm(document["AlgorithmSpecification"])
    described["OutputDataConfig"] = {**_OUTPUT, **document["OutputDataConfig"]}
    described["StoppingCondition"] = {**_STOPPING_CONDITION, **document["StoppingCondition"]}
    if "FailureReason" in document:
        described["FailureReason"] = _reason(document)
    if "InputDataConfig" in document:
        described["InputDataConfig"] = [_channel(each) for each in document["InputDataConfig"]]
    return described


def _model(document: Document) -> dict[str, str]:
    """Return where the model will be; the model of the API requires it, whatever the status."""
    output = document["OutputDataConfig"]
    name = "model/" if output.get("CompressionType") == "NONE" else "model.tar.gz"
    folder = f"{output['S3OutputPath'].rstrip('/')}/{document['TrainingJobName']}/output"
    return {"S3ModelArtifacts": f"{folder}/{name}"}


def _reason(document: Document) -> str:
    """Return the reason of a failure, of a container that is not Launcher's in AWS's form."""
    reason, code = str(document["FailureReason"]), document.get("LocalExitCode")
    entrypoint = document["AlgorithmSpecification"].get("ContainerEntrypoint", [""])
    if code is None or entrypoint[-1].rpartition("/")[2] == LAUNCH_SCRIPT:
        return reason
    said, end = "" if _UNEXPLAINED.fullmatch(reason) else reason, f", exit code: {code}"
    return f"AlgorithmError: {said}"[: FAILURE_REASON_LIMIT - len(end)] + end


def _algorithm(algorithm: Mapping[str, object]) -> dict[str, object]:
    """Add the time series of metrics, which SageMaker generates for a job that defines metrics."""
    has_metrics = bool(algorithm.get("MetricDefinitions"))
    return {"EnableSageMakerMetricsTimeSeries": has_metrics, **algorithm}


def _channel(channel: Document) -> dict[str, object]:
    source = channel["DataSource"]
    if "S3DataSource" in source:
        source = {**source, "S3DataSource": {**_S3_SOURCE, **source["S3DataSource"]}}
    return {**_CHANNEL, **channel, "DataSource": source}
