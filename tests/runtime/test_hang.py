"""Ranks that wait for ever: detected, every rank's stack logged, the one not waiting named."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import pytest
from hosts import Hosts
from programs import PIPELINE, READER

from launcher.runtime import ANSWER_TIMEOUT, Failure, HangDiagnosis, RankActivity
from launcher.shared import FAILURE_REASON_LIMIT, Launch

MakeHosts = Callable[..., Hosts]

#: Rank 1 stops taking part in the third collective, in one way or another.
STRAYING = """
import os, re, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(10**9):
    if step == 2 and dist.get_rank() == 1:
        print(f"straying pid={{os.getpid()}}", flush=True)
        {stray}
    dist.all_reduce(torch.ones(1))
"""


def straying(make_hosts: MakeHosts, stray: str, *, train: int = 2) -> Hosts:
    pytest.importorskip("torch")
    return make_hosts(
        {"train.py": STRAYING.format(stray=stray)},
        train=train,
        launch=Launch.TORCHRUN,
        processes_per_host=2 // train,
        hang_timeout=6,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "train",
    [pytest.param(1, id="one host", marks=pytest.mark.slow), pytest.param(2, id="two hosts")],
)
def test_the_rank_that_the_others_wait_for_is_named(make_hosts: MakeHosts, train: int) -> None:
    hosts = straying(make_hosts, "time.sleep(1000)", train=train)
    hosts.fail()
    origin = hosts[f"algo-{train}"]
    assert origin.failure == (
        f"host algo-{train} (train_group), rank 1: no progress for 6 s: "
        "rank 1 is in time.sleep(1000) (train.py:10); rank 0 waits in all_reduce (train.py:11)"
    ), hosts.output()
    assert [name for name in hosts.hosts if hosts[name].failure] == [origin.name]
    for rank in (0, 1):
        host = hosts["algo-1"] if train == 1 else hosts[f"algo-{rank + 1}"]
        assert rank in [event["of_rank"] for event in host.events("rank_stack")]
    assert 'train.py", line 10 in <module>' in origin.output
    assert 'train.py", line 11 in <module>' in hosts["algo-1"].output
    assert hosts.processes() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stray", "words"),
    [
        (
            "re.match('(a+)+$', 'a' * 64 + 'b')",
            r"rank 1 is in match \(train\.py:10\)",
        ),
        (
            "os.kill(os.getpid(), 19)",
            r"rank 1 is stopped \(SIGSTOP\) in os\.kill\(os\.getpid\(\), 19\) \(train\.py:10\)",
        ),
    ],
    ids=["spins in C", "SIGSTOP"],
)
def test_a_rank_that_cannot_speak_is_seen_by_its_host(
    make_hosts: MakeHosts, stray: str, words: str
) -> None:
    hosts = straying(make_hosts, stray)
    hosts.fail()
    failure = hosts["algo-2"].failure or ""
    assert re.search(words, failure), failure or hosts.output()
    assert "rank 0 waits in all_reduce" in failure
    assert hosts.processes() == []


@pytest.mark.slow
def test_a_host_that_is_frozen_does_not_keep_the_others(make_hosts: MakeHosts) -> None:
    hosts = straying(make_hosts, "time.sleep(1000)")
    hosts.start()
    hosts.await_output("straying", "algo-2")
    for pid in hosts.processes("algo-2"):
        os.kill(pid, signal.SIGSTOP)
    assert hosts["algo-1"].wait() == 1
    failure = hosts["algo-1"].failure or ""
    assert "rank 0 waits in all_reduce" in failure
    assert "host algo-2 does not answer" in failure


LATE = """
import os, time
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 0:
    time.sleep(4)
dist.barrier()
print("over the barrier", flush=True)
if dist.get_rank() == 0:
    time.sleep(14)
"""


@pytest.mark.slow
def test_waiting_less_than_the_timeout_and_sleeping_alone_are_no_hang(
    make_hosts: MakeHosts,
) -> None:
    pytest.importorskip("torch")
    hosts = make_hosts({"train.py": LATE}, train=2, launch=Launch.TORCHRUN, hang_timeout=10)
    hosts.run()
    assert hosts.output().count("over the barrier") == 2


@pytest.mark.long
def test_a_sample_that_never_comes_is_a_hang_of_the_loader(make_hosts: MakeHosts) -> None:
    stuck = PIPELINE.replace(
        "noise =", "index == 50 and __import__('time').sleep(1000)\n        noise ="
    )
    hosts = make_hosts({"pipeline.py": stuck, "train.py": READER}, data=1, hang_timeout=6)
    assert hosts.codes() == {"algo-1": 0, "algo-2": 1}, hosts.output()
    assert hosts["algo-2"].failure == (
        "host algo-2 (train_group), rank 0: no progress for 6 s: "
        "rank 0 waits in the data loader (train.py:8)"
    )
    assert hosts.processes() == []


# The diagnosis ---------------------------------------------------------------------------------

REPORT = Failure(host="algo-1", group="train", rank=0, cause="no progress for 60 s")


def activity(rank: int, description: str, is_waiting: bool = True) -> RankActivity:
    return RankActivity(
        rank=rank,
        host=f"algo-{rank + 1}",
        group="train",
        description=description,
        is_waiting=is_waiting,
    )


def cause(*activities: RankActivity, hosts: int) -> str:
    diagnosis = HangDiagnosis(REPORT, 0.0)
    for each in activities:
        diagnosis.answers.setdefault(each.host, []).append(each)
    return str(diagnosis.failure([f"algo-{number}" for number in range(1, hosts + 1)]))


def test_ranks_that_do_the_same_are_named_once() -> None:
    waiting = [activity(rank, "waits in barrier (train.py:9)") for rank in range(3)]
    assert cause(*waiting, hosts=3) == (
        "host algo-1 (train), rank 0: no progress for 60 s: "
        "ranks 0, 1, 2 wait in barrier (train.py:9)"
    )


def test_a_host_without_an_answer_is_named_and_the_reporter_fails() -> None:
    assert cause(activity(0, "waits in barrier (train.py:9)"), hosts=2) == (
        "host algo-1 (train), rank 0: no progress for 60 s: rank 0 waits in barrier (train.py:9); "
        "host algo-2 does not answer"
    )


def test_the_diagnosis_of_many_ranks_fits_and_begins_with_the_one_not_waiting() -> None:
    waiting = [activity(rank, f"waits in all_reduce (train.py:{rank})") for rank in range(200)]
    waiting[77] = activity(77, "is in time.sleep(9) (train.py:3)", is_waiting=False)
    text = cause(*waiting, hosts=200)
    assert text.startswith(
        "host algo-78 (train), rank 77: no progress for 60 s: rank 77 is in time.sleep(9)"
    )
    assert len(text) <= FAILURE_REASON_LIMIT


def test_an_inquiry_is_over_when_all_have_answered_or_had_their_time() -> None:
    diagnosis = HangDiagnosis(REPORT, 0.0)
    diagnosis.answers["algo-1"] = []
    assert diagnosis.is_complete(["algo-1"], 0.0)
    assert not diagnosis.is_complete(["algo-1", "algo-2"], ANSWER_TIMEOUT)
    assert diagnosis.is_complete(["algo-1", "algo-2"], ANSWER_TIMEOUT + 0.1)
