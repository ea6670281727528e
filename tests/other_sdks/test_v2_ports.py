"""AWS's heterogeneous start scripts, submitted to an endpoint by SDK v2 itself, and completed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from customer import BUCKET, ROLE, Customer, isolated_customer
from needs import needs_mpirun
from sdk_clients import run_client

PORTS = Path(__file__).parents[1] / "local" / "aws_ports"

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def customer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Customer]:
    """An endpoint whose hosts have a network of their own, where each may use the same ports."""
    with isolated_customer("network", tmp_path_factory.mktemp("endpoint")) as customer:
        yield customer


def submit(customer: Customer, folder: Path, port: str, data_hosts: int, name: str) -> list[str]:
    """The lines of a port's job that SDK v2 has submitted and waited for."""
    start = [sys.executable, PORTS / "start_job.py", ROLE, BUCKET, port, str(data_hosts)]
    run_client(customer, folder, "env", f"JOB_NAME={name}", *start)
    document = customer.describe(name)
    assert document["TrainingJobStatus"] == "Completed", document.get("FailureReason")
    return customer.lines(name)


@pytest.mark.library("sagemaker-v2")
def test_hello_world(customer: Customer, tmp_path: Path) -> None:
    lines = submit(customer, tmp_path, "hello", 2, "hello")
    assert "hi from algo-1: env.is_hetero=True" in lines
    assert "algo-3 is a ml.g5.xlarge of dnn_group" in lines


@pytest.mark.library("sagemaker-v2")
@pytest.mark.parametrize("data_hosts", [1, 2])
def test_a_loader_with_a_shutdown_port(customer: Customer, tmp_path: Path, data_hosts: int) -> None:
    lines = submit(customer, tmp_path, "loader", data_hosts, f"loader-{data_hosts}")
    assert "fitted 3.00 x + 1.00" in lines
    assert lines.count("Received shutdown signal") == data_hosts


@pytest.mark.library("tensorflow")
@needs_mpirun
def test_tf_data_servers_and_ranks_under_mpirun(customer: Customer, tmp_path: Path) -> None:
    records = tmp_path / "training"
    subprocess.run([sys.executable, PORTS / "generate_tfrecords.py", records], check=True)
    for file in records.iterdir():
        customer.s3.put_object(Bucket=BUCKET, Key=f"training/{file.name}", Body=file.read_bytes())
    lines = "\n".join(submit(customer, tmp_path, "tf_data", 1, "tf-data"))
    assert len(re.findall(r"rank \d of 2 epoch \d", lines)) == 4
    assert lines.count("Received shutdown signal") == 2
