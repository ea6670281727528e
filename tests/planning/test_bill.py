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
            {
                "InstanceGroupName": "data_group",
                "InstanceType": "ml.c5.9xlarge",
                "InstanceCount": 2,
            },
            {
                "InstanceGroupName": "train_group",
                "InstanceType": "ml.g5.12xlarge",
                "InstanceCount": 1,
            },
        ],
    },
    "StoppingCondition": {"MaxRuntimeInSeconds": 7200},
}
ENDED = DESCRIBED | {
    "TrainingJobStatus": "Completed",
    "TrainingTimeInSeconds": 3600,
    "BillableTimeInSeconds": 900,
}


def test_the_bill_is_billable_seconds_times_the_price_of_each_group() -> None:
    ended = bill(ENDED)
    assert ended is not None
    assert ended.by_group == {
        "data_group": pytest.approx(0.918),
        "train_group": pytest.approx(1.7725),
    }
    assert ended.dollars == pytest.approx(2.6905)
    assert str(ended) == "$2.69 (max $21.52)"
    assert ended.spot_saving is None, "less than its training time, but not of spot instances"


def test_spot_instances_saved_what_was_not_billed() -> None:
    ended = bill(ENDED | {"EnableManagedSpotTraining": True})
    assert ended is not None
    assert ended.spot_saving == 0.75


def test_while_a_job_runs_only_its_maximum_is_known() -> None:
    running = bill(DESCRIBED)
    assert running is not None
    assert running.dollars is None
    assert running.max_dollars == pytest.approx(21.524)
    assert running.by_group == {"data_group": None, "train_group": None}


def test_the_seconds_in_a_warm_pool_are_billed_too() -> None:
    kept = {
        "WarmPoolStatus": {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 900}
    }
    ended = bill(ENDED | kept | {"EnableManagedSpotTraining": True})
    assert ended is not None
    assert ended.dollars == pytest.approx(2 * 2.6905)
    assert ended.spot_saving == 0.75, "of the training, not of what came after"


def test_the_most_that_a_job_costs_has_its_warm_pool_as_the_plan_has() -> None:
    resources = DESCRIBED["ResourceConfig"] | {"KeepAlivePeriodInSeconds": 1800}
    pool = {"WarmPoolStatus": {"Status": "Available", "ResourceRetainedBillableTimeInSeconds": 900}}
    ended = bill(ENDED | {"ResourceConfig": resources, "BillableTimeInSeconds": 7200} | pool)

    assert ended is not None
    assert ended.max_dollars == pytest.approx(2.5 * 10.762)
    assert str(ended) == "$24.21 (max $26.91)"


def test_an_unknown_price_leaves_the_bill_unknown() -> None:
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1}
    ended = bill(ENDED | {"ResourceConfig": resources})
    assert ended is not None
    assert ended.dollars is None
    assert ended.summary()["unknown_prices"] == ["ml.p4d.24xlarge"]


def test_a_job_of_a_platform_that_does_not_bill_has_no_bill() -> None:
    session = SimpleNamespace(
        platform=replace(LOCAL_PLATFORM, name="free"),
        describe_training_job=lambda **_: ENDED,
    )
    assert Job("digits-1", session).cost() is None
    session.platform = replace(LOCAL_PLATFORM, bills=True)
    assert Job("digits-1", session).cost() == bill(ENDED)
