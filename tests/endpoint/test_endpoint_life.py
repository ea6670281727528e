"""The lives of jobs, as a client with boto3 sees them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from customer import GROUP, Customer
from waiting import wait_until

OBEDIENT = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
signal.pause()
"""
WHO = """
import json, pathlib
config = pathlib.Path(__file__).parents[2] / "config" / "resourceconfig.json"
print(json.dumps(json.loads(config.read_text())))
"""


@pytest.mark.long
def test_a_job_completes(customer: Customer) -> None:
    arn = customer.submit("completes", "print('hello'); print('world')")
    assert arn == "arn:aws:sagemaker:us-east-1:123456789012:training-job/completes"
    document = customer.end_of("completes")
    assert document["TrainingJobArn"] == arn
    assert document["TrainingJobStatus"] == document["SecondaryStatus"] == "Completed"
    states = [each["Status"] for each in document["SecondaryStatusTransitions"]]
    assert states == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert document["EnableNetworkIsolation"] is False
    assert document["BillableTimeInSeconds"] >= 1
    assert customer.lines("completes") == ["hello", "world"]


SAYS = """
import pathlib, sys
(pathlib.Path(__file__).parents[3] / "output" / "failure").write_text("no\\nluck")
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param("import sys; sys.exit(7)", "AlgorithmError: , exit code: 7", id="no file"),
        pytest.param(SAYS, "AlgorithmError: no\nluck, exit code: 3", id="with a file"),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)", "AlgorithmError: , exit code: 137", id="killed"
        ),
    ],
)
def test_a_container_fails_with_a_reason_of_aws_s_form(
    customer: Customer, script: str, reason: str, request: pytest.FixtureRequest
) -> None:
    name = f"fails-{request.node.callspec.id.replace(' ', '-')}"
    customer.submit(name, script)
    document = customer.end_of(name)
    assert document["TrainingJobStatus"] == "Failed"
    assert document["FailureReason"] == reason


def absent(document: Any, shape: Any, path: str = "") -> list[str]:
    """The required members of an output that are not there."""
    if shape.type_name == "list":
        return [each for item in document for each in absent(item, shape.member, f"{path}[]")]
    if shape.type_name != "structure":
        return []
    missing = [f"{path}.{name}" for name in shape.required_members if name not in document]
    present = [(name, member) for name, member in shape.members.items() if name in document]
    return missing + [
        each
        for name, member in present
        for each in absent(document[name], member, f"{path}.{name}")
    ]


def test_every_status_has_all_required_fields(customer: Customer) -> None:
    shape = customer.sagemaker.meta.service_model.operation_model(
        "DescribeTrainingJob"
    ).output_shape
    customer.submit("required", OBEDIENT)

    def is_stopped() -> bool:
        seen = customer.describe("required")
        assert absent(seen, shape) == [], seen["SecondaryStatus"]
        model = seen["ModelArtifacts"]["S3ModelArtifacts"]
        assert model.endswith("/output/required/output/model.tar.gz")
        if seen["SecondaryStatus"] == "Training":
            customer.sagemaker.stop_training_job(TrainingJobName="required")
        return bool(seen["TrainingJobStatus"] == "Stopped")

    wait_until(is_stopped)
    for name, script in (("required-2", "pass"), ("required-3", "raise SystemExit(1)")):
        assert absent(customer.ensure(name, script), shape) == []


@pytest.mark.long
def test_a_job_is_stopped(customer: Customer) -> None:
    customer.submit("stopped", OBEDIENT)
    customer.wait("stopped", "SecondaryStatus", "Training")
    customer.sagemaker.stop_training_job(TrainingJobName="stopped")
    assert customer.describe("stopped")["TrainingJobStatus"] in ("Stopping", "Stopped")
    document = customer.end_of("stopped")
    assert document["TrainingJobStatus"] == document["SecondaryStatus"] == "Stopped"


@pytest.mark.long
def test_a_job_runs_out_of_time(customer: Customer) -> None:
    customer.submit("late", OBEDIENT, StoppingCondition={"MaxRuntimeInSeconds": 1})
    document = customer.end_of("late")
    assert document["TrainingJobStatus"] == "Stopped"
    assert document["SecondaryStatus"] == "MaxRuntimeExceeded"


@pytest.mark.long
def test_a_job_of_two_groups(customer: Customer) -> None:
    groups = [
        {"InstanceGroupName": "data", "InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "train", "InstanceType": "ml.g4dn.xlarge", "InstanceCount": 1},
    ]
    resources = {"InstanceGroups": groups, "VolumeSizeInGB": 10}
    customer.submit("groups", WHO, ResourceConfig=resources)
    document = customer.end_of("groups")
    assert document["TrainingJobStatus"] == "Completed", document.get("FailureReason")
    assert document["ResourceConfig"] == resources
    configs = [json.loads(line) for line in customer.lines("groups")]
    assert [(each["current_host"], each["current_group_name"]) for each in configs] == [
        ("algo-1", "data"),
        ("algo-2", "data"),
        ("algo-3", "train"),
    ]


@pytest.mark.long
def test_a_region_has_its_own_jobs(customer: Customer) -> None:
    elsewhere = customer.endpoint.client("sagemaker", region="eu-west-1")
    customer.submit("regional", "print('here')")
    customer.end_of("regional")
    names = [
        job["TrainingJobName"] for job in elsewhere.list_training_jobs()["TrainingJobSummaries"]
    ]
    assert "regional" not in names
    logs = customer.endpoint.client("logs", region="eu-west-1")
    assert not logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]


@pytest.mark.long
def test_a_deleted_job_frees_its_name(customer: Customer) -> None:
    customer.submit("again", "pass")
    customer.end_of("again")
    customer.sagemaker.delete_training_job(TrainingJobName="again")
    customer.submit("again", "print('once more')")
    customer.end_of("again")
    assert customer.lines("again") == ["once more"]


@pytest.mark.long
def test_the_keeper_of_a_deleted_job_leaves_the_next_of_its_name_alone(customer: Customer) -> None:
    customer.submit("reborn", OBEDIENT)
    customer.wait("reborn", "SecondaryStatus", "Training")
    keeper = keeper_of(customer.root / "jobs" / "reborn")
    os.kill(keeper, signal.SIGSTOP)
    customer.sagemaker.stop_training_job(TrainingJobName="reborn")
    customer.end_of("reborn")
    threading.Timer(0.5, os.kill, (keeper, signal.SIGCONT)).start()
    customer.sagemaker.delete_training_job(TrainingJobName="reborn")
    customer.submit("reborn", "import time; time.sleep(1.5); print('lives')")
    document = customer.end_of("reborn")
    assert document["TrainingJobStatus"] == "Completed", document
    assert customer.lines("reborn") == ["lives"]


def keeper_of(folder: Path) -> int:
    """The first of a job's processes, which is the parent of its platform process."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may end meanwhile
            if f"{folder}\0" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
    return min(found)


@pytest.mark.long
def test_hosts_see_what_describe_returns(customer: Customer) -> None:
    told = """
import os
print(os.environ["AWS_REGION"], os.environ["TRAINING_JOB_ARN"])
print(*(name for name in os.environ if name.startswith("AWS_")))
"""
    arn = customer.submit("told", told)
    assert customer.end_of("told")["TrainingJobArn"] == arn
    assert customer.lines("told") == [f"us-east-1 {arn}", "AWS_REGION"]


@pytest.mark.long
def test_a_description_has_the_values_of_what_its_request_left_out(customer: Customer) -> None:
    document = customer.ensure("defaults")
    assert document["OutputDataConfig"] == {
        "KmsKeyId": "",
        "S3OutputPath": "s3://training-bucket/output",
        "CompressionType": "GZIP",
    }
    (channel,) = document["InputDataConfig"]
    assert channel["CompressionType"] == channel["RecordWrapperType"] == "None"
    assert channel["DataSource"]["S3DataSource"]["S3DataDistributionType"] == "FullyReplicated"
    assert document["AlgorithmSpecification"]["EnableSageMakerMetricsTimeSeries"] is False
    customer.ensure(
        "no-defaults",
        OutputDataConfig={
            "S3OutputPath": "s3://training-bucket/output",
            "CompressionType": "NONE",
        },
        StoppingCondition={},
    )
    document = customer.describe("no-defaults")
    assert document["OutputDataConfig"]["CompressionType"] == "NONE"
    assert document["StoppingCondition"] == {"MaxRuntimeInSeconds": 86400}


def messages(document: dict[str, Any]) -> dict[str, str]:
    return {
        each["Status"]: each["StatusMessage"] for each in document["SecondaryStatusTransitions"]
    }


@pytest.mark.long
def test_status_messages_are_those_of_sagemaker(customer: Customer) -> None:
    found = messages(customer.ensure("messages"))
    assert found.pop("Starting").startswith("Starting the training job")
    assert found == {
        "Downloading": "Downloading input data",
        "Training": "Training image download completed. Training in progress.",
        "Uploading": "Uploading generated training model",
        "Completed": "Training job completed",
    }
    failed = customer.ensure("failed-messages", "raise SystemExit(3)")
    assert messages(failed)["Failed"] == "Training job failed"
    assert failed["FailureReason"] == "AlgorithmError: , exit code: 3"


@pytest.mark.long
def test_a_status_is_that_of_its_last_transition(customer: Customer) -> None:
    customer.submit("stopping", OBEDIENT)
    customer.wait("stopping", "SecondaryStatus", "Training")
    customer.sagemaker.stop_training_job(TrainingJobName="stopping")
    document = customer.describe("stopping")
    while document["TrainingJobStatus"] == "Stopping":
        last = document["SecondaryStatusTransitions"][-1]
        if document["SecondaryStatus"] == "Stopping":
            assert (last["Status"], last["StatusMessage"]) == (
                "Stopping",
                "Stopping the training job",
            )
        document = customer.describe("stopping")
    ends = [each.get("EndTime") for each in document["SecondaryStatusTransitions"]]
    starts = [each["StartTime"] for each in document["SecondaryStatusTransitions"]]
    assert ends[:-1] == starts[1:]
