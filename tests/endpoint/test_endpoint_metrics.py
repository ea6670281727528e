"""Metrics of jobs in CloudWatch, as SDK v2's TrainingJobAnalytics and the console ask for them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from customer import BUCKET, Customer, request

from launcher.client.endpoint import serve

SCRIPT = """
for step in range(20):
    print(f"loss={1 / (step + 1)}; accuracy={step / 20};")
print("loss=nan;")
"""
PATTERN = "=([0-9.]+|nan);"
DEFINITIONS = [
    {"Name": "loss", "Regex": f"loss{PATTERN}"},
    {"Name": "val:accuracy", "Regex": f"accuracy{PATTERN}"},
    {"Name": "never", "Regex": "never=(.*)"},
]
LOSSES = [1 / (step + 1) for step in range(20)]


def algorithm() -> dict[str, Any]:
    return {**request("any")["AlgorithmSpecification"], "MetricDefinitions": DEFINITIONS}


def statistics(cloudwatch: Any, job: str, metric: str) -> list[dict[str, Any]]:
    """All values of a job's metric in one period, or none."""
    now = datetime.now(timezone.utc)
    answer = cloudwatch.get_metric_statistics(
        Namespace="/aws/sagemaker/TrainingJobs",
        MetricName=metric,
        Dimensions=[{"Name": "TrainingJobName", "Value": job}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=3600,
        Statistics=["Average", "Minimum", "Maximum", "SampleCount"],
    )
    return list(answer["Datapoints"])


def metric_names(cloudwatch: Any, job: str) -> set[str]:
    found = cloudwatch.list_metrics(
        Namespace="/aws/sagemaker/TrainingJobs",
        Dimensions=[{"Name": "TrainingJobName", "Value": job}],
    )["Metrics"]
    return {metric["MetricName"] for metric in found}


@pytest.fixture(scope="module")
def cloudwatch(customer: Customer) -> Any:
    return customer.endpoint.client("cloudwatch")


@pytest.mark.long
def test_cloudwatch_has_every_value(customer: Customer, cloudwatch: Any) -> None:
    document = customer.ensure("measured", SCRIPT, AlgorithmSpecification=algorithm())
    assert document["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] is True
    (point,) = statistics(cloudwatch, "measured", "loss")
    assert point["SampleCount"] == len(LOSSES)
    assert point["Average"] == pytest.approx(sum(LOSSES) / len(LOSSES))
    assert (point["Minimum"], point["Maximum"]) == (LOSSES[-1], LOSSES[0])
    (point,) = statistics(cloudwatch, "measured", "val:accuracy")
    assert point["Maximum"] == 0.95
    assert statistics(cloudwatch, "measured", "never") == []
    assert statistics(cloudwatch, "another", "loss") == []
    assert metric_names(cloudwatch, "measured") == {"loss", "val:accuracy"}


@pytest.mark.long
def test_metrics_are_searched_by_their_last_values(customer: Customer) -> None:
    customer.ensure("measured", SCRIPT, AlgorithmSpecification=algorithm())

    def found(operator: str, value: str) -> list[str]:
        name = {"Name": "Metrics.val:accuracy", "Operator": operator, "Value": value}
        results = customer.sagemaker.search(
            Resource="TrainingJob",
            SearchExpression={"Filters": [name]},
            SortBy="Metrics.val:accuracy",
        )["Results"]
        return [each["TrainingJob"]["TrainingJobName"] for each in results]

    assert found("GreaterThan", "0.9") == ["measured"]
    assert found("GreaterThan", "0.95") == []


@pytest.mark.long
def test_other_metrics_are_left_alone(customer: Customer, cloudwatch: Any) -> None:
    cloudwatch.put_metric_data(Namespace="mine", MetricData=[{"MetricName": "loss", "Value": 5.0}])
    customer.ensure("gone", SCRIPT, AlgorithmSpecification=algorithm())
    assert metric_names(cloudwatch, "gone") == {"loss", "val:accuracy"}
    customer.sagemaker.delete_training_job(TrainingJobName="gone")
    assert metric_names(cloudwatch, "gone") == set()
    assert len(cloudwatch.list_metrics(Namespace="mine")["Metrics"]) == 1


@pytest.mark.long
def test_metrics_survive_a_restart(tmp_path: Path) -> None:
    with serve(tmp_path, isolation="process") as endpoint:
        Customer(endpoint, tmp_path).s3.create_bucket(Bucket=BUCKET)
        Customer(endpoint, tmp_path).ensure("measured", SCRIPT, AlgorithmSpecification=algorithm())
    with serve(tmp_path, isolation="process") as endpoint:
        (point,) = statistics(endpoint.client("cloudwatch"), "measured", "loss")
    assert point["SampleCount"] == len(LOSSES)
