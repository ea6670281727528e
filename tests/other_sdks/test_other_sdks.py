"""Jobs of SDK v2, SDK v3 and the AWS CLI, submitted to an endpoint as they are, and completed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from customer import BUCKET, ROLE, Customer, isolated_customer
from sdk_clients import run_client

HERE = Path(__file__).parent
#: The programs of the library's environment.
PROGRAMS = Path(sys.executable).parent

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
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    with isolated_customer("sandbox", tmp_path_factory.mktemp("endpoint")) as customer:
        customer.s3.put_object(Bucket=BUCKET, Key="digits/a", Body=b"A")
        yield customer


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def check_job(customer: Customer, prefix: str, host: str = "algo-1") -> None:
    """It completed, its host's lines are in CloudWatch Logs, and its model is in S3."""
    found = customer.sagemaker.list_training_jobs(NameContains=prefix)
    (job,) = found["TrainingJobSummaries"]
    document = customer.end_of(job["TrainingJobName"])
    assert document["TrainingJobStatus"] == "Completed", document.get("FailureReason")
    assert f"host {host} epochs 3 name abc" in customer.lines(job["TrainingJobName"])
    bucket, _, key = (
        document["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://").partition("/")
    )
    content = customer.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        weights = tar.extractfile("weights")
        assert weights is not None
        assert weights.read() == b"AAA"


@pytest.mark.library("sagemaker-v2")
def test_pytorch_of_sdk_v2(customer: Customer, source: Path) -> None:
    printed = run_client(
        customer, source.parent, sys.executable, HERE / "client_v2.py", ROLE, source
    )

    assert "host algo-1 epochs 3 name abc" in printed
    check_job(customer, "by-sdk-v2")


@pytest.mark.library("sagemaker-v3")
def test_model_trainer_of_sdk_v3(customer: Customer, source: Path) -> None:
    run_client(customer, source.parent, sys.executable, HERE / "client_v3.py", ROLE, source)

    check_job(customer, "by-sdk-v3")


@pytest.mark.library("awscli")
def test_the_dry_run_through_the_aws_cli(customer: Customer, source: Path) -> None:
    folder = source.parent
    (folder / "job.yaml").write_text(JOB)
    dry = [
        "-m",
        "launcher",
        "run",
        "job.yaml",
        "--dry-run",
        "--upload",
        "--name",
        "by-cli",
    ]
    request = subprocess.run(
        [sys.executable, *dry],
        cwd=folder,
        env={**os.environ, **customer.endpoint.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "request.json").write_text(request.stdout)

    run_client(
        customer,
        folder,
        *(PROGRAMS / "aws", "sagemaker", "create-training-job"),
        *("--cli-input-json", "file://request.json"),
    )
    check_job(customer, "by-cli", host="algo-2")


OBJECTS = {
    "sagemaker-v2": "from sagemaker.estimator import _TrainingJob\n"
    "named = _TrainingJob(sagemaker_session=None, job_name='job-1')\n",
    "sagemaker-v3": "from sagemaker.core.resources import TrainingJob\n"
    "named = TrainingJob(training_job_name='job-1')\n",
}
ATTACH = """
from launcher import MemorySession, PyTorch
session = MemorySession()
made = PyTorch("train.py", role="arn:aws:iam::111122223333:role/Training", image_uri="image:1",
               instance_type="ml.m5.large", instance_count=1, sagemaker_session=session)
made.fit(job_name="job-1", logs=False)
print("ATTACHED", PyTorch.attach(named, session).latest_training_job.job_name)
"""


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.library(name)) for name in OBJECTS]
)
def test_a_job_of_another_sdk_is_attached(tmp_path: Path, library: str) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    program = OBJECTS[library] + ATTACH
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "us-east-1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert "ATTACHED job-1" in done.stdout, done.stderr
