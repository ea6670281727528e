"""Jobs that name a task: its function is called in every rank, which is watched as a script is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hosts import Hosts

from launcher.shared import Launch, ParallelPart

pytest.importorskip("torch")
MakeHosts = Callable[..., Hosts]

FAILING = """
import os
def make(width, lr, names):
    raise ValueError(f"{width!r} {lr!r} {names!r} {os.environ['LAUNCHER_PARALLEL']}")
"""
#: Rank 1 stops taking part in the third collective.
STRAYING = """
import time
import torch
import torch.distributed as dist
def make():
    dist.init_process_group("gloo")
    for step in range(10**9):
        if step == 2 and dist.get_rank() == 1:
            time.sleep(1000)
        dist.all_reduce(torch.ones(1))
"""


def start(make_hosts: MakeHosts, task: str, **options: object) -> Hosts:
    hosts = make_hosts(
        {"task.py": task}, launch=Launch.TORCHRUN, task="task:make", entry_point="", **options
    )
    hosts.start()
    return hosts


@pytest.mark.long
def test_a_task_gets_typed_values_and_its_failure_is_the_jobs(make_hosts: MakeHosts) -> None:
    hosts = start(
        make_hosts,
        FAILING,
        parallel=ParallelPart(precision="bf16"),
        hyperparameters={"width": 3, "lr": 1.0, "names": ["a", "1"]},
    )
    assert hosts.wait() == {"algo-1": 1}, hosts.output()
    first, *others = (hosts["algo-1"].failure or "").splitlines()
    values = """3 1.0 ['a', '1'] {"precision": "bf16"}"""
    assert first == f"host algo-1 (train_group), rank 0: ValueError: {values}"
    assert any(line.endswith('task.py", line 4, in make') for line in others)
    assert hosts.processes() == []


@pytest.mark.slow
def test_a_rank_that_hangs_in_a_task_is_named(make_hosts: MakeHosts) -> None:
    hosts = start(make_hosts, STRAYING, train=2, hang_timeout=6)
    assert set(hosts.wait().values()) == {1}, hosts.output()
    assert hosts["algo-2"].failure == (
        "host algo-2 (train_group), rank 1: no progress for 6 s: "
        "rank 1 is in time.sleep(1000) (task.py:9); rank 0 waits in all_reduce (task.py:10)"
    ), hosts.output()
    assert hosts.processes() == []
