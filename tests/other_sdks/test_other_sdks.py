"""Jobs of SDK v2, SDK v3 and the AWS CLI, submitted to an endpoint as they are, and completed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.endpoint import ServedEndpoint, serve
from launcher.errors import PlatformError
from launcher.sessions.local.isolation import choose_isolation

HERE = Path(__file__).parent
BUCKET = "training-bucket"
ROLE = "arn:aws:iam::123456789012:role/LauncherLocalRole"
#: The first test of a client installs it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TRAIN = """\
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--name")
given = parser.parse_args()
print("host", os.environ["SM_CURRENT_HOST"], "epochs", given.epochs, "name", given.name)
data = open(os.path.join(os.environ["SM_CHANNEL_DIGITS"], "a")).read()
with open(os.path.join(os.environ["SM_MODEL_DIR"], "weights"), "w") as weights:
    weights.write(data * given.epochs)
"""
JOB = f"""\
entry_point: train.py
source_dir: source
instance_groups:
  - instance_group_name: helper
    instance_type: ml.c5.xlarge
    instance_count: 1
    command: [python3, -c, "import time; time.sleep(600)"]
  - {{instance_group_name: trainer, instance_type: ml.g4dn.xlarge, instance_count: 1}}
hyperparameters: {{epochs: 3, name: abc}}
role: {ROLE}
image_uri: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.2.0-cpu-py310
output_path: s3://{BUCKET}/output
inputs:
  digits: {{s3_data: "s3://{BUCKET}/digits/", instance_groups: [trainer]}}
"""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedEndpoint]:
    try:
        choose_isolation("sandbox")
    except PlatformError as error:
        pytest.skip(str(error))
    with serve(tmp_path_factory.mktemp("endpoint"), isolation="sandbox") as served:
        s3 = served.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="digits/a", Body=b"A")
        yield served


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def run_client(endpoint: ServedEndpoint, folder: Path, *command: str | Path) -> str:
    """What a client prints, which has nothing but the endpoint's variables."""
    variables = {"HOME": str(folder), "PATH": os.environ["PATH"], **endpoint.environment}
    result = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        timeout=300,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def end_of(endpoint: ServedEndpoint, prefix: str) -> dict[str, Any]:
    """The description of the job whose name begins so, at its end."""
    sagemaker = endpoint.client("sagemaker")
    (job,) = sagemaker.list_training_jobs(NameContains=prefix)["TrainingJobSummaries"]
    deadline = time.monotonic() + 120
    while True:
        document: dict[str, Any] = sagemaker.describe_training_job(
            TrainingJobName=job["TrainingJobName"]
        )
        if document["TrainingJobStatus"] not in ("InProgress", "Stopping"):
            return document
        assert time.monotonic() < deadline, document
        time.sleep(0.2)


def check_job(endpoint: ServedEndpoint, prefix: str, host: str = "algo-1") -> None:
    """It completed, its host's lines are in CloudWatch Logs, and its model is in S3."""
    document = end_of(endpoint, prefix)
    assert document["TrainingJobStatus"] == "Completed", document.get("FailureReason")
    assert f"host {host} epochs 3 name abc" in lines_of(endpoint, document["TrainingJobName"])
    bucket, _, key = (
        document["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    )
    content = endpoint.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        weights = tar.extractfile("weights")
        assert weights is not None
        assert weights.read() == b"AAA"


def lines_of(endpoint: ServedEndpoint, name: str) -> list[str]:
    logs = endpoint.client("logs")
    group = "/aws/sagemaker/TrainingJobs"
    streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")
    return [
        event["message"].strip()
        for stream in streams["logStreams"]
        for event in logs.get_log_events(
            logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True
        )["events"]
    ]


def test_pytorch_of_sdk_v2(
    endpoint: ServedEndpoint, source: Path, programs_of: Callable[[str], Path]
) -> None:
    python = programs_of("sagemaker==2.257.0") / "python"
    printed = run_client(endpoint, source.parent, python, HERE / "client_v2.py", ROLE, source)

    assert "host algo-1 epochs 3 name abc" in printed
    check_job(endpoint, "by-sdk-v2")


def test_model_trainer_of_sdk_v3(
    endpoint: ServedEndpoint, source: Path, programs_of: Callable[[str], Path]
) -> None:
    python = programs_of("sagemaker==3.27.0") / "python"
    run_client(endpoint, source.parent, python, HERE / "client_v3.py", ROLE, source)

    check_job(endpoint, "by-sdk-v3")


def test_the_dry_run_through_the_aws_cli(
    endpoint: ServedEndpoint, source: Path, programs_of: Callable[[str], Path]
) -> None:
    folder = source.parent
    (folder / "job.yaml").write_text(JOB)
    dry = ["-m", "launcher.cli", "run", "job.yaml", "--dry-run", "--upload", "--name", "by-cli"]
    request = subprocess.run(
        [sys.executable, *dry],
        cwd=folder,
        env={**os.environ, **endpoint.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "request.json").write_text(request.stdout)

    run_client(
        endpoint,
        folder,
        *(programs_of("awscli") / "aws", "sagemaker", "create-training-job"),
        *("--cli-input-json", "file://request.json"),
    )
    check_job(endpoint, "by-cli", host="algo-2")
