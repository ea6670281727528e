"""What a job does when the network cable of one of its hosts is cut, mended, loose or slow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from digits_example import Example, Run, finish
from needs import skip_without_isolation
from waiting import wait_until

from launcher.client.sessions import network_faults
from launcher.errors import PlatformError

JOB = """
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.xlarge, instance_count: 2}
  - {instance_group_name: train_group, instance_type: ml.c5.xlarge, instance_count: 2, role: train}
data_service: {datasets: ["pipeline:numbers"], workers_per_host: 1}
"""
PIPELINE = """
import time
import numpy as np

class Numbers:
    def __len__(self):
        return 480

    def __getitem__(self, index):
        time.sleep(0.02)
        return np.full(1000, index), np.random.random(3)

numbers = Numbers
"""
TRAIN = """
import hashlib, os
import numpy as np
from launcher.data import DataLoader

digest = hashlib.sha256()
for step, batch in enumerate(DataLoader("pipeline:numbers", batch_size=8, shuffle=True, seed=0)):
    for part in batch:
        digest.update(np.asarray(part).tobytes())
    if step == 3:
        print("under way", flush=True)
print(f"witness rank={os.environ['RANK']} pass=0 sha256={digest.hexdigest()}", flush=True)
"""


def job_below(folder: Path) -> Example:
    """A job of two data hosts and two train hosts that needs some seconds, and no torch."""
    skip_without_isolation("network")
    code = folder / "code"
    code.mkdir()
    for name, text in (("job.yaml", JOB), ("pipeline.py", PIPELINE), ("train.py", TRAIN)):
        (code / name).write_text(text)
    return Example(code, folder / "home")


@pytest.fixture
def job(tmp_path: Path) -> Example:
    return job_below(tmp_path)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The job when nothing happens to it."""
    run = job_below(tmp_path_factory.mktemp("calm")).run("job.yaml", "--isolation", "network")
    assert run.code == 0, run.talk
    assert len(run.hashes) == 2
    return run


class Disturbed:
    """A job that runs, and whose cables can be cut."""

    def __init__(self, job: Example) -> None:
        self.folder = job.job_folder("cut")
        self._job = job
        self._process = job.start("job.yaml", "--isolation", "network", "--name", "cut")
        wait_until(lambda: self.said("algo-3", "under way") and self.said("algo-4", "under way"))

    def said(self, host: str, text: str) -> bool:
        files = [each for kind in ("log", "events") for each in self._files(host, kind)]
        return any(text in file.read_text() for file in files)

    def _files(self, host: str, kind: str) -> Iterator[Path]:
        return self.folder.logs.glob(f"{host}-*.{kind}")

    def is_trained(self) -> bool:
        return all(self.said(host, "witness") for host in ("algo-3", "algo-4"))

    def end(self) -> Run:
        return Run(self._job, *finish(self._process))


@pytest.mark.long
def test_a_data_host_that_is_cut_off_for_a_while_changes_nothing(job: Example, calm: Run) -> None:
    disturbed = Disturbed(job)
    network_faults.cut(disturbed.folder, "algo-1")
    wait_until(disturbed.is_trained)
    network_faults.restore(disturbed.folder, "algo-1")
    run = disturbed.end()

    assert run.code == 0, run.talk
    assert run.hashes == calm.hashes
    prepared = run.summary["data"]["batches_by_host"]
    assert sum(prepared.values()) == 60
    assert prepared["algo-2"] > prepared["algo-1"], "its batches were prepared by the other"


@pytest.mark.slow
def test_a_loose_cable_changes_nothing(job: Example, calm: Run) -> None:
    """Packets are lost all the time, to and from a train host."""
    disturbed = Disturbed(job)
    while not disturbed.is_trained():
        network_faults.cut(disturbed.folder, "algo-4")
        time.sleep(0.1)  # the length of the interruption
        network_faults.restore(disturbed.folder, "algo-4")
        time.sleep(0.5)
    run = disturbed.end()
    assert run.code == 0, run.talk
    assert run.hashes == calm.hashes


@pytest.mark.slow
def test_a_slow_link_to_a_train_host_changes_nothing(job: Example, calm: Run) -> None:
    """27 batches of 64 kB are still to come when the link is made slow: 7 seconds of it."""
    disturbed = Disturbed(job)
    try:
        network_faults.slow(disturbed.folder, "algo-4", megabits=2)
    except PlatformError as error:
        disturbed.end()
        pytest.skip(f"this kernel cannot do it: {error}")
    wait_until(lambda: disturbed.said("algo-3", "witness"))
    assert not disturbed.said("algo-4", "witness"), "the link is not slow"
    run = disturbed.end()
    assert run.code == 0, run.talk
    assert run.hashes == calm.hashes


@pytest.mark.slow
def test_a_data_host_that_stays_cut_off_leaves_and_the_job_completes(
    job: Example, calm: Run
) -> None:
    disturbed = Disturbed(job)
    network_faults.cut(disturbed.folder, "algo-1")
    run = disturbed.end()
    assert run.code == 0, run.talk
    assert run.hashes == calm.hashes
    assert disturbed.said("algo-1", "launcher: leader_unreachable host=algo-1")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "reasons"),
    [
        pytest.param(
            "algo-4",
            {
                "host algo-4 (train_group): it does not answer any more: its network is cut, or "
                "the instance is lost",
                "host algo-4 (train_group): the leader algo-3 does not answer any more: "
                "Connection timed out",
                "host algo-4 (train_group): the leader algo-3 does not answer any more: "
                "No route to host",
            },
            id="another train host",
        ),
        pytest.param(
            "algo-3",
            {
                "host algo-3 (train_group): no other host answers any more: its network is cut, or "
                "the instance is lost",
                "host algo-4 (train_group): the leader algo-3 does not answer any more: "
                "Connection timed out",
                "host algo-4 (train_group): the leader algo-3 does not answer any more: "
                "No route to host",
            },
            id="the leader",
        ),
    ],
)
def test_a_train_host_that_is_cut_off_fails_the_job(
    job: Example, host: str, reasons: set[str]
) -> None:
    disturbed = Disturbed(job)
    began = time.monotonic()
    network_faults.cut(disturbed.folder, host)
    run = disturbed.end()
    assert run.code == 1
    assert run.summary["status"] == "Failed"
    assert run.summary["failure_reason"] in reasons
    assert time.monotonic() - began < 120
    assert job.processes("cut", "") == []


@pytest.mark.long
def test_no_cable_of_an_unknown_host_or_a_job_that_has_ended(job: Example) -> None:
    disturbed = Disturbed(job)
    with pytest.raises(PlatformError, match="ip link set algo-9 down: Cannot find"):
        network_faults.cut(disturbed.folder, "algo-9")
    assert disturbed.end().code == 0
    with pytest.raises(PlatformError, match="no host of job 'cut' runs, so it has no link"):
        network_faults.cut(disturbed.folder, "algo-1")
