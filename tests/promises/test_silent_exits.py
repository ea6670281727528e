"""A rank that leaves with code 0 while the others wait for it in a collective."""

from __future__ import annotations

import re

import pytest
from endings_stage import Stage
from waiting import wait_until

LEAVES = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == int(os.environ["WHO"]):
    print("misbehaves: leaves", flush=True)
    os._exit(0)
dist.all_reduce(torch.ones(1))
"""


#: How the rank leaves, and what is said of it.
WAYS = {
    "os._exit": ("os._exit(0)", r"the script called os\._exit\(0\) \(train\.py:10\)"),
    "sys.exit": ("raise SystemExit", r"the script called sys\.exit\(0\) \(train\.py:10\)"),
    "end": ("pass\nelse:\n    dist.all_reduce(torch.ones(1))", "the script ended"),
}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("who", [0, 1])
def test_a_rank_that_left_before_a_collective_is_named(stage: Stage, who: int, way: str) -> None:
    leaves, said = WAYS[way]
    script = LEAVES.replace("os._exit(0)", leaves)
    if way == "end":
        script = script.rpartition("dist.all_reduce")[0]
    stage.start(script=script, torchrun=True, WHO=str(who))
    wait_until(stage.is_over, what="the end of the job")
    summary = stage.job.summary()
    assert summary["status"] == "Failed"
    reason = summary["failure_reason"] or ""
    host = ("algo-3", "algo-4")[who]
    expected = (
        rf"host {host} \(train_group\), rank {who}: {said}, "
        rf"and rank {1 - who} failed without it"
    )
    assert re.match(expected, reason), reason
    assert not stage.traces.remains()


@pytest.mark.long
def test_ranks_that_all_leave_by_exit_0_have_completed(stage: Stage) -> None:
    stage.start(script=LEAVES.replace('== int(os.environ["WHO"])', ">= 0"), torchrun=True)
    wait_until(stage.is_over, what="the end of the job")
    assert stage.job.summary()["status"] == "Completed"
