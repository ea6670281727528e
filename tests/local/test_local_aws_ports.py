"""Start scripts in the style of AWS's heterogeneous examples: one script on every host decides.

aws_ports/ knows nothing of Launcher. `hello` prints what a host is; `loader` has data hosts that
serve batches over gRPC until the training host uses their shutdown port.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher import InstanceGroup, Job, LocalSession, PyTorch
from launcher.client.sessions.local.isolation import choose_isolation
from launcher.errors import PlatformError

PORTS = Path(__file__).parent / "aws_ports"


@pytest.fixture
def session(tmp_path: Path) -> LocalSession:
    """Hosts with a network of their own, where each may use the same ports."""
    try:
        choose_isolation("network")
    except PlatformError as error:
        pytest.skip(str(error))
    return LocalSession(tmp_path / "home", "network")


def run(session: LocalSession, port: str, script: str, name: str = "port", **fields: Any) -> Job:
    estimator = PyTorch(
        script,
        source_dir=str(PORTS / port),
        role="arn:aws:iam::111122223333:role/any",
        max_run=300,
        sagemaker_session=session,
        **fields,
    )
    return estimator.fit(job_name=name, logs=False)


def groups(data: int, train: int = 1) -> list[InstanceGroup]:
    return [
        InstanceGroup("data_group", "ml.c5.xlarge", data),
        InstanceGroup("dnn_group", "ml.g4dn.xlarge", train),
    ]


def printed(job: Job) -> list[str]:
    return [line.text for line in job.logs() if not line.is_event]


def test_hello_world(session: LocalSession) -> None:
    job = run(
        session,
        "hello",
        "train.py",
        instance_groups=groups(2, 2),
        hyperparameters={"greeting": "hi"},
    )
    assert job.status == "Completed", printed(job)
    assert sorted(printed(job)) == [
        "hi from algo-1: data_group of ['algo-1', 'algo-2'] reads data",
        "hi from algo-2: data_group of ['algo-1', 'algo-2'] reads data",
        "hi from algo-3: dnn_group of ['algo-3', 'algo-4'] trains",
        "hi from algo-4: dnn_group of ['algo-3', 'algo-4'] trains",
    ]
    roles = {group["name"]: group["role"] for group in job.summary()["groups"]}
    assert roles == {"data_group": "script", "dnn_group": "script"}


def check_loader(job: Job, data_hosts: int) -> None:
    lines = printed(job)
    assert job.status == "Completed", lines
    assert "fitted 3.00 x + 1.00" in lines
    assert lines.count("shutdown signal received") == data_hosts


@pytest.mark.parametrize("data_hosts", [1, 2])
def test_a_loader_with_a_shutdown_port(session: LocalSession, data_hosts: int) -> None:
    pytest.importorskip("grpc")
    job = run(
        session,
        "loader",
        "start.py",
        instance_groups=groups(data_hosts),
        hyperparameters={"steps": 100},
    )
    check_loader(job, data_hosts)


@pytest.mark.parametrize("lifetime", [None, "train"])
def test_a_loader_whose_distribution_is_limited_to_the_group_that_trains(
    session: LocalSession, lifetime: Any
) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("torch")
    data = InstanceGroup("data_group", "ml.c5.xlarge", 2, lifetime=lifetime)
    train = InstanceGroup("dnn_group", "ml.g4dn.xlarge", 1)
    job = run(
        session,
        "loader",
        "start.py",
        instance_groups=[data, train],
        distribution={"torch_distributed": {"enabled": True}, "instance_groups": [train]},
        hyperparameters={"steps": 100},
    )
    check_loader(job, 2)


@pytest.mark.slow
@pytest.mark.parametrize("data_hosts", [1, 2])
def test_a_loader_ends_well_ten_times_of_ten(session: LocalSession, data_hosts: int) -> None:
    pytest.importorskip("grpc")
    for number in range(10):
        job = run(
            session,
            "loader",
            "start.py",
            name=f"port-{number}",
            instance_groups=groups(data_hosts),
            hyperparameters={"steps": 100},
        )
        check_loader(job, data_hosts)
