"""Horovod under the MPI starter: real Horovod, mpirun and ranks; hosts are processes."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from completed_run import completed_run
from hosts import Hosts
from programs import PIPELINE
from waiting import wait_until

from launcher.shared import Launch

pytestmark = [pytest.mark.library("horovod"), pytest.mark.slow]
MakeHosts = Callable[..., Hosts]
EXAMPLE = Path(__file__).parents[2] / "examples" / "mpi"

#: Reads its batches, adds up the ranks, and steps an optimizer whose gradients Horovod averages.
TRAIN = """
import os
import horovod.torch as hvd
import torch
from launcher.data import DataLoader

hvd.init()
batches = len(list(DataLoader("pipeline:train_set", batch_size=8)))
total = int(hvd.allreduce(torch.tensor(hvd.rank()), op=hvd.Sum))
weight = torch.nn.Parameter(torch.tensor([float(hvd.rank())]))
hvd.broadcast_parameters([("weight", weight)], root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("weight", weight)])
(weight * hvd.rank()).backward()
optimizer.step()
print(
    "rank", hvd.rank(), "of", hvd.size(), "local", hvd.local_rank(), "of", hvd.local_size(),
    "on", os.environ["SM_CURRENT_HOST"], "sum", total, "batches", batches,
    "weight", weight.item(), flush=True,
)
"""
FOR_EVER = """
print("waits", hvd.rank(), os.getpid(), flush=True)
while True:
    hvd.allreduce(torch.ones(1))
"""
RAISE = """
if hvd.rank() == 3:
    raise ValueError("rank three has enough")
hvd.allreduce(torch.ones(1))
"""


def start(make_hosts: MakeHosts, script: str, **options: object) -> Hosts:
    options = {"train": 2, "processes_per_host": 2, "launch": Launch.MPI, **options}
    hosts = make_hosts({"train.py": script, "pipeline.py": PIPELINE}, **options)
    hosts.start()
    return hosts


def lines(hosts: Hosts, word: str) -> list[str]:
    return sorted(re.findall(rf"^{word}\b.*$", hosts.output(), re.MULTILINE))


def wait_for_ranks(hosts: Hosts) -> dict[int, int]:
    """The process of each of the four ranks, all of which average without an end."""
    wait_until(lambda: len(lines(hosts, "waits")) == 4, what="four ranks")
    return {int(rank): int(pid) for _, rank, pid in map(str.split, lines(hosts, "waits"))}


@pytest.mark.parametrize("train", [1, 2])
def test_ranks_average_gradients_on_batches_of_a_data_host(
    make_hosts: MakeHosts, train: int
) -> None:
    hosts = start(make_hosts, TRAIN, train=train, data=1)
    assert set(hosts.wait().values()) == {0}, hosts.output()
    size = 2 * train
    mean = (size - 1) / 2  # the gradient of each rank is its number
    batches = -(-103 // (8 * size))
    assert lines(hosts, "rank") == [
        f"rank {rank} of {size} local {rank % 2} of 2 on algo-{2 + rank // 2} "
        f"sum {sum(range(size))} batches {batches} weight {-mean}"
        for rank in range(size)
    ]
    assert hosts.processes() == []


def test_a_killed_rank_fails_the_job_with_its_name(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, TRAIN + FOR_EVER, data=1)
    os.kill(wait_for_ranks(hosts)[2], signal.SIGKILL)
    hosts.wait()
    assert (hosts["algo-3"].failure or "").startswith(
        "host algo-3 (train_group), rank 2: killed by SIGKILL"
    )
    assert hosts["algo-2"].failure is None
    assert hosts.processes() == []


def test_an_exception_is_the_reason_and_not_its_echo(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, TRAIN + RAISE, data=1)
    hosts.wait()
    assert (hosts["algo-3"].failure or "").startswith(
        "host algo-3 (train_group), rank 3: ValueError: rank three has enough\nTraceback"
    )
    assert hosts["algo-2"].failure is None
    assert hosts.processes() == []


def test_a_stop_leaves_nothing(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, TRAIN + FOR_EVER, data=1)
    wait_for_ranks(hosts)
    hosts.terminate()
    codes = hosts.wait()
    assert codes["algo-2"] == codes["algo-3"] == 143, hosts.output()
    assert hosts.processes() == []


def test_the_example_trains_on_two_hosts(tmp_path: Path) -> None:
    script = "entry_point=train_horovod.py"
    summary, log = completed_run(EXAMPLE / "job.yaml", tmp_path, "--set", script)
    assert "ranks=4 test_error=" in log
    assert summary["metrics"]["test_error"] < 0.05
