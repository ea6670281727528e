"""The digits example through AWS's own protocol: S3, CloudWatch Logs and SageMaker over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from digits_example import ONE_TRAIN_HOST, Example, Run, finish

from launcher.client.endpoint import ServedEndpoint, serve

BUCKET = "digits-bucket"
IMAGES = 300
SHORT = (
    *("--set", "hyperparameters.epochs=1", "--set", "entry_point=witness.py"),
    *("--set", "instance_groups.data_group.instance_count=1"),
    *ONE_TRAIN_HOST,
)
PLACES = (
    *("--set", f"inputs.digits.s3_data=s3://{BUCKET}/images"),
    *("--set", f"output_path=s3://{BUCKET}/results"),
    *("--set", "role=arn:aws:iam::123456789012:role/LauncherLocalRole"),
)


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[ServedEndpoint]:
    with serve(tmp_path / "endpoint") as serving:
        yield serving


@pytest.fixture
def example(example: Example) -> Example:
    """The example with still fewer images: each travels to S3 and back."""
    for path in (example.folder / "data").rglob("*.png"):
        if int(path.stem) >= IMAGES:
            path.unlink()
    return example


@pytest.fixture
def storage(endpoint: ServedEndpoint, example: Example) -> Any:
    """An S3 client; the bucket holds the images."""
    client = endpoint.client("s3")
    client.create_bucket(Bucket=BUCKET)
    data = example.folder / "data"
    for path in data.rglob("*.png"):
        key = f"images/{path.relative_to(data)}"
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
    return client


def cloud_environment(example: Example, endpoint: ServedEndpoint) -> dict[str, str]:
    return {**example.environment, **endpoint.environment}


def in_the_cloud(
    example: Example, endpoint: ServedEndpoint, *options: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        example.command("run", str(example.folder / "job.yaml"), "-o", "json", *PLACES, *options),
        env=cloud_environment(example, endpoint),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def model_keys(storage: Any, name: str) -> list[str]:
    answer = storage.list_objects_v2(Bucket=BUCKET, Prefix=f"results/{name}/output/")
    return [each["Key"].rpartition("/")[2] for each in answer["Contents"]]


@pytest.mark.long
def test_the_same_training_through_the_endpoint(
    example: Example, endpoint: ServedEndpoint, storage: Any
) -> None:
    """Not a bit is different, and every answer went through S3 and CloudWatch Logs."""
    local = example.run("job.yaml", *SHORT)
    cloud = Run(example, *finish(in_the_cloud(example, endpoint, "--yes", *SHORT)))
    assert (local.code, cloud.code) == (0, 0), local.talk + cloud.talk
    assert len(cloud.hashes) == 2 * 2
    assert cloud.hashes == local.hashes
    assert cloud.losses == local.losses
    assert cloud.summary["model_artifacts"].startswith(f"s3://{BUCKET}/results/")
    assert "model.tar.gz" in model_keys(storage, cloud.summary["name"])


@pytest.mark.library("awscli")
def test_the_same_request_through_the_aws_cli(
    example: Example,
    endpoint: ServedEndpoint,
    storage: Any,
    tmp_path: Path,
) -> None:
    """What a dry run printed, sent by a client that knows nothing of Launcher."""
    aws_cli = Path(sys.executable).with_name("aws")
    shown, _ = in_the_cloud(example, endpoint, "--dry-run", "--upload", *SHORT).communicate()
    request = json.loads(shown)
    (tmp_path / "request.json").write_text(shown)
    environment = cloud_environment(example, endpoint)

    def aws(*words: str) -> Any:
        answer = subprocess.run(
            [aws_cli, *words, "--output", "json"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(answer.stdout or "null")

    aws("sagemaker", "create-training-job", "--cli-input-json", f"file://{tmp_path}/request.json")
    name = request["TrainingJobName"]
    waiting = [aws_cli, "sagemaker", "wait", "training-job-completed-or-stopped"]
    subprocess.run([*waiting, "--training-job-name", name], env=environment, check=True)
    description = aws("sagemaker", "describe-training-job", "--training-job-name", name)
    assert description["TrainingJobStatus"] == "Completed", description
    local = example.run("job.yaml", *SHORT)
    events = aws(
        *("logs", "filter-log-events", "--log-group-name", "/aws/sagemaker/TrainingJobs"),
        *("--log-stream-name-prefix", f"{name}/"),
    )["events"]
    lines = "\n".join(event["message"] for event in events)
    assert Run(example, 0, {}, lines).hashes == local.hashes
    assert "model.tar.gz" in model_keys(storage, name)
