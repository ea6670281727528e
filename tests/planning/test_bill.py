"""What a job cost, from what DescribeTrainingJob says of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from launcher import Job
from launcher.client.jobs import bill
from launcher.client.sessions import LOCAL_PLATFORM

DESCRIBED: dict[str, Any] = {
    "TrainingJobArn": "arn:aws:sagemaker:us-east-1:111122223333:training-job/digits-1",
    "ResourceConfig": {
        "VolumeSizeInGB": 30,
        "InstanceGroups": [
            {"InstanceGroupName": name, "InstanceType": type_, "InstanceCount": count}
            for name, type_, count in (
                ("data_group", "ml.c5.9xlarge", 2),
                ("train_group", "ml.g5.12xlarge", 1),
            )
        ],
    },
    "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
}
ENDED = DESCRIBED | {
    "TrainingJobStatus": "Completed",
    "TrainingTimeInSeconds": 3600,
    "BillableTimeInSeconds": 900,
}


SPOT = {"EnableManagedSpotTraining": True}
POOL = {"WarmPoolStatus": {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 900}}
KEPT = {"ResourceConfig": DESCRIBED["ResourceConfig"] | {"KeepAlivePeriodInSeconds": 1800}}
CASES = {
    "billable seconds times prices": (ENDED, 2.6905, None, "$2.69 (max $21.52)"),
    "spot instances": (ENDED | SPOT, 2.6905, 0.75, "$2.69 (max $21.52)"),
    "while a job runs": (DESCRIBED, None, None, ""),
    "a warm pool, which saved nothing": (ENDED | POOL | SPOT, 2 * 2.6905, 0.75, ""),
    "a warm pool in the maximum": (
        ENDED | KEPT | {"BillableTimeInSeconds": 7200} | POOL,
        *(2.25 * 10.762, None, "$24.21 (max $26.91)"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_bill(name: str) -> None:
    described, dollars, saving, text = CASES[name]
    found = bill(described)

    assert found is not None
    assert found.dollars == (None if dollars is None else pytest.approx(dollars))
    assert found.spot_saving == saving
    assert str(found).startswith(text)


def test_each_group_has_its_part_of_the_bill_once_that_is_known() -> None:
    ended, running = bill(ENDED), bill(DESCRIBED)

    assert ended is not None
    assert running is not None
    parts = {"data_group": pytest.approx(0.918), "train_group": pytest.approx(1.7725)}
    assert ended.by_group == parts
    assert running.by_group == {"data_group": None, "train_group": None}
    assert running.max_dollars == pytest.approx(21.524)


def test_an_unknown_price_leaves_the_bill_unknown() -> None:
    resources = {"InstanceType": "ml.p5e.48xlarge", "InstanceCount": 1}
    ended = bill(ENDED | {"ResourceConfig": resources})
    assert ended is not None
    assert ended.dollars is None
    assert ended.summary()["unknown_prices"] == ["ml.p5e.48xlarge"]


def test_a_job_of_a_platform_that_does_not_bill_has_no_bill() -> None:
    session = SimpleNamespace(
        platform=replace(LOCAL_PLATFORM, name="free"),
        describe_training_job=lambda **_: ENDED,
    )
    assert Job("digits-1", session).cost() is None
    session.platform = replace(LOCAL_PLATFORM, bills=True)
    assert Job("digits-1", session).cost() == bill(ENDED)
