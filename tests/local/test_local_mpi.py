"""MPI in whole local jobs, from the job's description to the reason."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from bench import fit, processes_mentioning
from needs import needs_mpirun
from programs import ADD_UP
from waiting import wait_until

from launcher import DataService, InstanceGroup, Job, LocalSession, Mpi
from launcher.client.sessions import TERMINAL_STATUSES

pytestmark = needs_mpirun

#: All add up their ranks through MPI's own library, after each has read its batches.
TRAIN = (
    """
from launcher.data import DataLoader

batches = len(list(DataLoader("pipeline:train_set", batch_size=4)))
"""
    + ADD_UP
    + """
mpi.MPI_Finalize()
rank, size = (os.environ["OMPI_COMM_WORLD_" + name] for name in ("RANK", "SIZE"))
print(f"rank={rank} size={size} host={os.environ['SM_CURRENT_HOST']} sum={total.value} {batches=}")
if "wait" in os.environ.get("DEMAND", ""):
    import time
    print("waits", rank, flush=True)
    time.sleep(600)
"""
)
PIPELINE = "def train_set():\n    return list(range(64))\n"

SLOW = pytest.mark.slow
ISOLATIONS = [
    pytest.param("process", marks=SLOW),
    "sandbox",
    pytest.param("network", marks=SLOW),
]


def start(tmp_path: Path, isolation: str, **environment: str) -> Job:
    return fit(
        LocalSession(tmp_path / "home", isolation, stop_grace_seconds=20.0),
        tmp_path / "source",
        {"train.py": TRAIN, "pipeline.py": PIPELINE},
        instance_groups=[
            InstanceGroup("data_group", "ml.c5.xlarge", 1),
            InstanceGroup("train_group", "ml.g4dn.xlarge", 2),
        ],
        distribution=Mpi(processes_per_host=2),
        data_service=DataService(datasets=("pipeline:train_set",), workers_per_host=1),
        environment=environment,
        wait=False,
    )


def said(job: Job, word: str) -> list[str]:
    return sorted(line.text for line in job.logs() if re.match(rf"{word}\b", line.text))


def nothing_is_left(tmp_path: Path) -> bool:
    return processes_mentioning(str(tmp_path / "home" / "jobs" / "job" / "hosts")) == {}


@pytest.mark.long
@pytest.mark.parametrize("isolation", ISOLATIONS, indirect=True)
def test_ranks_of_two_train_hosts_and_one_data_host(tmp_path: Path, isolation: str) -> None:
    job = start(tmp_path, isolation).wait()
    lines = [line.text for line in job.logs()]
    assert job.status == "Completed", "\n".join(lines)
    assert said(job, "rank") == [
        f"rank={rank} size=4 host=algo-{2 + rank // 2} sum=6 batches=4" for rank in range(4)
    ]
    assert nothing_is_left(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATIONS, indirect=True)
def test_a_killed_rank_fails_the_job_with_its_host(tmp_path: Path, isolation: str) -> None:
    job = start(tmp_path, isolation, DEMAND="wait")
    wait_until(lambda: len(said(job, "waits")) == 4)
    # Inside a sandbox pids are others: the process is known by its place.
    place = "OMPI_COMM_WORLD_RANK=2"
    ranks = [pid for pid in processes_mentioning(place) if is_below(pid, tmp_path)]
    os.kill(max(ranks), signal.SIGKILL)  # the younger of the two: the rank, not who looks on
    job.wait()
    assert job.status == "Failed"
    reason = job.description()["FailureReason"]
    assert "host algo-3 (train_group), rank 2: killed by SIGKILL" in reason
    assert nothing_is_left(tmp_path)


def is_below(pid: int, tmp_path: Path) -> bool:
    """Whether a process belongs to this test's job: one of those above it names the folder."""
    while pid > 1:
        if str(tmp_path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ISOLATIONS, indirect=True)
def test_a_stopped_job_leaves_nothing(tmp_path: Path, isolation: str) -> None:
    job = start(tmp_path, isolation, DEMAND="wait")
    wait_until(lambda: len(said(job, "waits")) == 4)
    job.stop()
    job.wait()
    assert job.status in TERMINAL_STATUSES - {"Failed"}
    assert nothing_is_left(tmp_path)
