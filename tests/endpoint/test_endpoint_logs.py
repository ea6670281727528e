"""CloudWatch has what the hosts have printed: each line once, in order, with its time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from customer import GROUP, Customer, isolated_customer
from waiting import wait_until

from launcher.client.endpoint import serve
from launcher.client.sessions import LocalSession

LINES = 10_000
CHATTER = f"""
import sys
for number in range({LINES}):
    print("line", number, "é" * (number % 7), flush=number % 100 == 0)
sys.stdout.write("the end, without a line end")
"""
TWO_HOSTS = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 10}


def local_lines(customer: Customer, stream: str) -> list[str]:
    job, _, name = stream.partition("/")
    text = (customer.root / "jobs" / job / "logs" / f"{name}.log").read_text()
    return text.splitlines()


@pytest.mark.long
def test_every_line_is_there_once_also_for_one_who_follows(customer: Customer) -> None:
    customer.submit("chatter", CHATTER, ResourceConfig=TWO_HOSTS)
    tokens: dict[str, str] = {}
    followed: dict[str, list[str]] = {}
    is_over = False
    while not is_over:
        is_over = customer.describe("chatter")["TrainingJobStatus"] != "InProgress"
        for stream in customer.streams("chatter"):
            position = {"nextToken": tokens[stream]} if stream in tokens else {}
            page = customer.logs.get_log_events(
                logGroupName=GROUP, logStreamName=stream, startFromHead=True, **position
            )
            tokens[stream] = page["nextForwardToken"]
            followed.setdefault(stream, []).extend(event["message"] for event in page["events"])
    streams = customer.streams("chatter")
    assert [stream.rpartition("-")[0] for stream in streams] == ["chatter/algo-1", "chatter/algo-2"]
    for stream in streams:
        expected = local_lines(customer, stream)
        events = customer.events(stream)
        assert len(expected) == LINES + 1
        assert [event["message"] for event in events] == expected
        rest = expected[len(followed[stream]) :]
        assert followed[stream] + rest == expected
        times = [event["timestamp"] for event in events]
        assert times == sorted(times)
        assert abs(times[-1] / 1000 - time.time()) < 60


@pytest.mark.long
def test_a_prefix_of_filter_log_events_means_its_streams_only(customer: Customer) -> None:
    for name in ("filtered", "filtered-2"):
        customer.submit(name, f"print('this is {name}')")
        customer.end_of(name)
    answer = customer.logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix="filtered/")
    assert [event["message"] for event in answer["events"]] == ["this is filtered"]
    nobody = customer.logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix="nobody/")
    assert nobody["events"] == []


@pytest.mark.long
def test_the_group_is_listed_and_queried_before_anyone_has_read_it(tmp_path: Path) -> None:
    with isolated_customer("process", tmp_path) as customer:
        customer.submit("queried", "print('loss=1')")
        customer.end_of("queried")
        listed = customer.logs.describe_log_groups()["logGroups"]
        query = customer.logs.start_query(
            logGroupNames=[GROUP],
            startTime=0,
            endTime=int(time.time()) + 60,
            queryString="fields @message",
        )
        rows = customer.logs.get_query_results(queryId=query["queryId"])["results"]
    assert [group["logGroupName"] for group in listed] == [GROUP]
    assert "loss=1" in [field["value"] for row in rows for field in row]


@pytest.mark.long
def test_each_attempt_of_a_spot_job_has_its_stream(customer: Customer) -> None:
    script = """
import os, pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
mark = pathlib.Path(os.environ["MARK"])
print("attempt", 2 if mark.exists() else 1, flush=True)
if not mark.exists():
    mark.touch()
    signal.pause()
"""
    customer.submit(
        "spot",
        script,
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 90},
        Environment={"MARK": str(customer.root / "mark")},
    )
    customer.wait("spot", "SecondaryStatus", "Training")
    wait_until((customer.root / "mark").exists)
    LocalSession(customer.root).interrupt_training_job(TrainingJobName="spot")
    assert customer.end_of("spot")["TrainingJobStatus"] == "Completed"
    assert customer.lines("spot") == ["attempt 1", "attempt 2"]


@pytest.mark.long
def test_reads_are_throttled_at_aws_s_rates(tmp_path: Path) -> None:
    once = Config(retries={"total_max_attempts": 1})
    with serve(tmp_path, isolation="process") as endpoint:
        logs = endpoint.client("logs", config=once)
        logs.create_log_group(logGroupName="other")
        started = time.monotonic()
        codes = [_outcome(logs) for _ in range(60)]
        elapsed = time.monotonic() - started
    # A second's worth at once, and then 5 a second.
    assert 5 <= codes.count("answered") <= 6 + 5 * elapsed
    assert set(codes) == {"answered", "ThrottlingException Rate exceeded 400"}


def _outcome(logs: Any) -> str:
    try:
        logs.filter_log_events(logGroupName="other")
    except ClientError as refused:
        error, status = refused.response["Error"], refused.response["ResponseMetadata"]
        return f"{error['Code']} {error['Message']} {status['HTTPStatusCode']}"
    return "answered"


@pytest.mark.long
def test_any_operation_may_be_given_a_rate(tmp_path: Path) -> None:
    once = Config(retries={"total_max_attempts": 1})
    with serve(tmp_path, rates={"ListTrainingJobs": 0.001}, isolation="process") as endpoint:
        sagemaker = endpoint.client("sagemaker", config=once)
        sagemaker.list_training_jobs()
        with pytest.raises(ClientError, match="ThrottlingException"):
            sagemaker.list_training_jobs()
        elsewhere = endpoint.client("sagemaker", region="eu-west-1", config=once)
        elsewhere.list_training_jobs()
