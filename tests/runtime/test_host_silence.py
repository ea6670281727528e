"""Frozen hosts (SIGSTOP) are named, and end the job even when nobody reads data any more."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from hosts import Hosts
from programs import PIPELINE
from waiting import wait_until

from launcher.runtime import (
    ENDED_AFTER,
    HEARTBEAT_INTERVAL,
    NAMED_AFTER,
    Failure,
    HostSilence,
    JobCoordination,
    JobOutcome,
    OutcomeDecider,
    cause_of,
)
from launcher.runtime.end import job_coordination

#: Looks come often, or this process would seem to have been stopped itself.
STEP = 0.5


def looks(silence: HostSilence, start: float, end: float) -> list[str]:
    """The hosts that were named by looks in a period."""
    times = [start + STEP * number for number in range(int((end - start) / STEP) + 1)]
    return [host for now in times for host, _ in silence.look(now)]


def test_a_silent_host_is_named_once_within_ten_seconds() -> None:
    silence = HostSilence()
    silence.record("algo-1", 0.0)
    assert looks(silence, 0.0, NAMED_AFTER - STEP) == []
    assert looks(silence, NAMED_AFTER, 60.0) == ["algo-1"]
    assert NAMED_AFTER + HEARTBEAT_INTERVAL <= 10.0
    assert silence.is_silent("algo-1")
    assert silence.seconds("algo-1", 60.0) == 60.0


def test_a_host_that_is_heard_again_is_named_again_later() -> None:
    silence = HostSilence()
    silence.record("algo-1", 0.0)
    assert looks(silence, 0.0, 20.0) == ["algo-1"]
    silence.record("algo-1", 20.0)
    assert not silence.is_silent("algo-1")
    assert looks(silence, 20.5, 40.0) == ["algo-1"]


def test_a_host_is_frozen_after_its_time() -> None:
    silence = HostSilence()
    silence.record("algo-1", 0.0)
    silence.record("algo-2", 1.0)
    assert silence.frozen(ENDED_AFTER - STEP) == []
    assert silence.frozen(ENDED_AFTER) == ["algo-1"]


def test_time_in_which_this_process_did_not_run_is_not_silence_of_others() -> None:
    silence = HostSilence()
    silence.record("algo-1", 0.0)
    looks(silence, 0.0, 5.0)
    assert silence.look(500.0) == []
    assert silence.frozen(500.0) == []
    assert looks(silence, 500.5, 510.0) == ["algo-1"]


def test_a_host_whose_connection_ended_is_not_silent() -> None:
    silence = HostSilence()
    silence.record("algo-1", 0.0)
    silence.forget("algo-1")
    assert looks(silence, 0.0, 200.0) == []
    assert silence.frozen(200.0) == []


@pytest.fixture
def decider() -> OutcomeDecider:
    """Train hosts algo-2, the leader, and algo-3; algo-1 prepares data."""
    hosts = frozenset({"algo-2", "algo-3"})
    return OutcomeDecider(train_hosts=hosts, awaited=hosts, leader="algo-2")


def test_a_frozen_train_host_fails_the_job_and_the_leader_reports_it(
    decider: OutcomeDecider,
) -> None:
    decider.record_frozen("algo-3", "train", 0.0)
    outcome = decider.outcome(0.0)
    assert outcome is not None
    assert outcome.failure is not None
    assert (outcome.failure.host, outcome.failure.witness) == ("algo-3", "algo-2")
    assert f"sent nothing for {ENDED_AFTER:.0f} s" in str(outcome.failure)


def test_other_hosts_may_be_frozen(decider: OutcomeDecider) -> None:
    """Data hosts: others do their work. Hosts that are done: nobody waits for them."""
    decider.record_frozen("algo-1", "data", 0.0)
    decider.record_done("algo-3")
    decider.record_frozen("algo-3", "train", 0.0)
    assert decider.outcome(1000.0) is None
    decider.record_done("algo-2")
    assert decider.outcome(1000.0) == JobOutcome()


RECEIVER = Failure(host="algo-3", group="train", cause="the receiver ended: exit code 1")
RANK = Failure(host="algo-3", group="train", rank=1, cause="ValueError: no such label")
PEER = Failure(host="algo-3", group="train", rank=1, cause="RuntimeError: Connection reset by peer")


@pytest.mark.parametrize(
    ("failure", "is_silent", "blamed"),
    [
        (RECEIVER, True, "algo-2"),
        (PEER, True, "algo-2"),
        (RANK, True, "algo-3"),
        (RECEIVER, False, "algo-3"),
    ],
)
def test_what_ends_without_a_silent_leader_is_the_leaders_failure(
    monkeypatch: pytest.MonkeyPatch, failure: Failure, is_silent: bool, blamed: str
) -> None:
    monkeypatch.setattr(job_coordination, "SETTLE", -5.0)  # the leader does not answer
    leaders = Failure(host="algo-2", group="train", cause=cause_of(61.0), witness="algo-3")
    coordination = JobCoordination(
        lambda message: None, silent_leader=lambda: leaders if is_silent else None
    )
    found = coordination.report_failure(failure).failure
    assert found is not None
    assert found.host == blamed
    assert failure.cause in str(found), "it is in the detail at least"


SCRIPT = """
import os, time
from launcher.data import DataLoader

if __name__ == "__main__":
    for batch in DataLoader("pipeline:train_set", batch_size=8, epochs=1):
        pass
    print("has read everything", flush=True)
    if os.environ["SM_CURRENT_HOST"] == os.environ["FROZEN"]:
        time.sleep(3600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("frozen", "other"), [("algo-3", "algo-2"), ("algo-2", "algo-3")])
def test_a_train_host_that_is_frozen_after_all_was_read_ends_the_job(
    make_hosts: Callable[..., Hosts], frozen: str, other: str
) -> None:
    """The leader, algo-2, or another one; the bound is ENDED_AFTER, and generous here."""
    files = {"pipeline.py": PIPELINE, "train.py": SCRIPT}
    hosts = make_hosts(files, data=1, train=2, environment={"FROZEN": frozen})
    hosts.start()
    hosts.await_output("has read everything", times=2)
    for pid in hosts.processes(frozen):
        os.kill(pid, signal.SIGSTOP)
    (silent,) = wait_until(lambda: hosts[other].events("host_silent"))
    assert silent["member"] == frozen
    assert int(str(silent["seconds"])) <= 10
    assert hosts[other].wait(ENDED_AFTER + 60.0) == 1
    assert f"host {frozen} (train_group): its connection is open" in str(hosts[other].failure)
    assert hosts["algo-1"].wait() == (1 if frozen == "algo-2" else 0), "else the leader reports it"
    hosts.kill(frozen)
