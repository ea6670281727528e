"""What the tests ask of an endpoint, as any program with boto3 would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from launcher.client.endpoint import ServedEndpoint, serve
from launcher.client.sessions import choose_isolation
from launcher.errors import PlatformError

GROUP = "/aws/sagemaker/TrainingJobs"
BUCKET = "training-bucket"
ROLE = "arn:aws:iam::123456789012:role/LauncherLocalRole"


def channel(name: str, uri: str, **source: Any) -> dict[str, Any]:
    """An input channel with what is below a URI."""
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri, **source}},
    }


def request(name: str, **changes: Any) -> dict[str, Any]:
    """A CreateTrainingJob request whose hosts run the script of the channel "code"."""
    return {
        "TrainingJobName": name,
        "RoleArn": ROLE,
        "AlgorithmSpecification": {
            "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/any:1",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/main.py"],
        },
        "InputDataConfig": [channel("code", f"s3://{BUCKET}/code/{name}/")],
        "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/output"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 10,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 300},
        **changes,
    }


class Customer:
    """Clients of one endpoint, and the few things that tests do with them."""

    def __init__(self, endpoint: ServedEndpoint, root: Path) -> None:
        self.endpoint = endpoint
        self.root = root

    @cached_property
    def sagemaker(self) -> Any:
        return self.endpoint.client("sagemaker")

    @cached_property
    def logs(self) -> Any:
        return self.endpoint.client("logs")

    @cached_property
    def s3(self) -> Any:
        return self.endpoint.client("s3")

    def submit(self, name: str, script: str, **changes: Any) -> str:
        """Create a job whose hosts run a script; its ARN."""
        self.upload_code(name, script)
        answer = self.sagemaker.create_training_job(**request(name, **changes))
        return str(answer["TrainingJobArn"])

    def ensure(self, name: str, script: str = "pass", **changes: Any) -> dict[str, Any]:
        """Run a job to its end unless there is one of that name; its description."""
        found = self.sagemaker.list_training_jobs(NameContains=name)["TrainingJobSummaries"]
        if name not in [job["TrainingJobName"] for job in found]:
            self.submit(name, script, **changes)
        return self.end_of(name)

    def upload_code(self, name: str, script: str) -> None:
        """Put a job's script where its request says."""
        self.s3.create_bucket(Bucket=BUCKET)
        self.s3.put_object(Bucket=BUCKET, Key=f"code/{name}/main.py", Body=script.encode())

    def describe(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = self.sagemaker.describe_training_job(TrainingJobName=name)
        return document

    def end_of(self, name: str) -> dict[str, Any]:
        """The description of a job that has ended."""
        return self.wait(name, "TrainingJobStatus", "Completed", "Failed", "Stopped")

    def wait(self, name: str, field: str, *values: str) -> dict[str, Any]:
        """The description once a field has one of the values."""
        wait_until(lambda: self.describe(name)[field] in values, what=f"{name}: {field} {values}")
        return self.describe(name)

    def streams(self, name: str) -> list[str]:
        """The names of a job's log streams."""
        pages = self.logs.get_paginator("describe_log_streams").paginate(
            logGroupName=GROUP, logStreamNamePrefix=f"{name}/"
        )
        return [stream["logStreamName"] for page in pages for stream in page["logStreams"]]

    def events(self, stream: str) -> list[dict[str, Any]]:
        """All events of a stream, page by page, until the token stays."""
        found: list[dict[str, Any]] = []
        token: dict[str, str] = {}
        while True:
            page = self.logs.get_log_events(
                logGroupName=GROUP, logStreamName=stream, startFromHead=True, **token
            )
            found += page["events"]
            if page["nextForwardToken"] == token.get("nextToken"):
                return found
            token = {"nextToken": page["nextForwardToken"]}

    def lines(self, name: str) -> list[str]:
        """All that the hosts of a job have printed, host by host."""
        return [event["message"] for stream in self.streams(name) for event in self.events(stream)]


@contextmanager
def isolated_customer(isolation: str, root: Path) -> Iterator[Customer]:
    """A client of an endpoint, with a bucket; skips the test where hosts cannot be isolated so."""
    try:
        choose_isolation(isolation)
    except PlatformError as error:
        pytest.skip(str(error))
    with serve(root, isolation=isolation) as endpoint:
        customer = Customer(endpoint, root)
        customer.s3.create_bucket(Bucket=BUCKET)
        yield customer
