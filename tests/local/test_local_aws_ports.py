"""Start scripts in the style of AWS's heterogeneous examples: one script on every host decides.

aws_ports/ knows nothing of Launcher but for the imports in start_job.py. `hello` prints what a host
is; `loader` has data hosts that serve batches over gRPC, and `tf_data` tf.data servers for ranks
under mpirun, both until the training host uses their shutdown port.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from containers import session_options, skip_without_image, torch_image
from needs import needs_mpirun, skip_without_isolation

from launcher import InstanceGroup, Job, LocalSession, PyTorch

PORTS = Path(__file__).parent / "aws_ports"
sys.path.insert(0, str(PORTS))

from start_job import start  # noqa: E402 (needs the path)


@pytest.fixture(
    params=[
        "network",
        pytest.param("container", marks=pytest.mark.library("containers")),
    ]
)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> LocalSession:
    """Hosts with a network of their own, where each may use the same ports."""
    skip_without_isolation(request.param)
    options = {}
    if request.param == "container":
        skip_without_image(torch_image())
        options = session_options(request.param, torch_image())
    return LocalSession(tmp_path / "home", request.param, **options)


def run(session: LocalSession, port: str, data_hosts: int = 1, **fields: Any) -> Job:
    role = "arn:aws:iam::111122223333:role/any"
    estimator = start(port, data_hosts, role=role, sagemaker_session=session, **fields)
    return estimator.latest_training_job


def printed(job: Job) -> list[str]:
    return [line.text for line in job.logs() if not line.is_event]


@pytest.mark.long
def test_hello_world(session: LocalSession) -> None:
    job = run(session, "hello", 2)
    lines = printed(job)
    assert job.status == "Completed", lines
    of_data, groups = "['algo-1', 'algo-2']", "['data_group', 'dnn_group']"
    assert sorted(lines)[:7] == [
        "algo-1 is a ml.c5.xlarge of data_group",
        f"algo-1 is beside {of_data}",
        f"algo-1 knows {groups} {groups}",
        "algo-1 reads data_group, ['algo-1', 'algo-2', 'algo-3']",
        'algo-1 reads {"data_group": ["algo-1", "algo-2"], "dnn_group": ["algo-3"]}',
        "algo-1 trains: [] []",
        "algo-2 is a ml.c5.xlarge of data_group",
    ]
    assert "algo-3 is a ml.g5.xlarge of dnn_group" in lines
    assert "hi from algo-3: env.is_hetero=True" in lines
    roles = {group["name"]: group["role"] for group in job.summary()["groups"]}
    assert roles == {"data_group": "script", "dnn_group": "script"}


def check_loader(job: Job, data_hosts: int, lifetime: str | None = None) -> None:
    lines = printed(job)
    assert job.status == "Completed", lines
    assert "fitted 3.00 x + 1.00" in lines
    if lifetime is None:  # hosts that end with the training may not come to print these
        assert lines.count("Received shutdown signal") == data_hosts
        assert lines.count("Process train_data.py closed with returncode=-9") == data_hosts


@pytest.mark.long
@pytest.mark.parametrize("data_hosts", [1, 2])
def test_a_loader_with_a_shutdown_port(session: LocalSession, data_hosts: int) -> None:
    pytest.importorskip("grpc")
    check_loader(run(session, "loader", data_hosts), data_hosts)


@pytest.mark.long
@pytest.mark.parametrize("lifetime", [None, "train"])
def test_a_loader_whose_distribution_is_limited_to_the_group_that_trains(
    session: LocalSession, lifetime: Any
) -> None:
    pytest.importorskip("grpc")
    pytest.importorskip("torch")
    data = InstanceGroup("data_group", "ml.c5.xlarge", 2, lifetime=lifetime)
    train = InstanceGroup("dnn_group", "ml.g4dn.xlarge", 1)
    estimator = PyTorch(
        "launcher.py",
        source_dir=str(PORTS / "loader"),
        role="arn:aws:iam::111122223333:role/any",
        instance_groups=[data, train],
        distribution={"torch_distributed": {"enabled": True}, "instance_groups": [train]},
        hyperparameters={"iterations": 100},
        max_run=300,
        sagemaker_session=session,
    )
    check_loader(estimator.fit(job_name="port", logs=False), 2, lifetime)


@pytest.mark.slow
@pytest.mark.parametrize("data_hosts", [1, 2])
def test_a_loader_ends_well_ten_times_of_ten(session: LocalSession, data_hosts: int) -> None:
    pytest.importorskip("grpc")
    for number in range(10):
        check_loader(run(session, "loader", data_hosts, job_name=f"port-{number}"), data_hosts)


def check_tf_data(job: Job) -> None:
    lines = printed(job)
    assert job.status == "Completed", lines
    printed_epochs = re.findall(r"rank \d of 2 epoch \d", "\n".join(lines))
    assert sorted(printed_epochs) == [
        f"rank {rank} of 2 epoch {epoch}" for rank in (0, 1) for epoch in (0, 1)
    ]
    # the data host's servers, and those that the first rank has started beside the training
    assert lines.count("Received shutdown signal") == 2


@pytest.mark.library("tensorflow")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("session", ["network"], indirect=True)  # no image here has TensorFlow
@needs_mpirun
def test_tf_data_servers_and_ranks_under_mpirun_end_well_ten_times_of_ten(
    session: LocalSession, tmp_path: Path
) -> None:
    records = tmp_path / "training"
    subprocess.run([sys.executable, PORTS / "generate_tfrecords.py", records], check=True)
    for number in range(10):
        job = run(session, "tf_data", 1, training=f"file://{records}", job_name=f"port-{number}")
        check_tf_data(job)
