"""Data hosts and workers come, go, and come back within an epoch, and every sample is read once."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from hosts import Host, Hosts
from made_hosts import MakeHosts
from signed import SLOW_FILES, WINDOW, check_received, received, train_hosts
from waiting import wait_until

#: Places where ranks wait, within both epochs.
FIRST_GATE, SECOND_GATE = "0-24", "1-18"


@pytest.fixture
def make_job(make_hosts: MakeHosts, tmp_path: Path) -> MakeHosts:
    """Makes algo-1 and algo-2, which prepare, and algo-3, the leader, and algo-4, which read."""

    def make(gates: str, **options: int) -> Hosts:
        variables = {"FOLDER": str(tmp_path), "GATES": gates}
        return make_hosts(SLOW_FILES, data=2, train=2, environment=variables, **options)

    return make


def wait_at(hosts: Hosts, gate: str) -> None:
    """Until both ranks wait there."""
    hosts.await_output(f"at the gate {gate}", times=2)


def joined(hosts: Hosts, host: str) -> list[Any]:
    """The processes of a host's workers that have ever joined."""
    events = hosts["algo-3"].events("worker_joined")
    return [event["pid"] for event in events if str(event["worker"]).startswith(f"{host}/")]


def left(hosts: Hosts, pids: list[Any]) -> list[dict[str, Any]]:
    return [event for event in hosts["algo-3"].events("worker_left") if event["pid"] in pids]


def by_host(hosts: Hosts) -> Any:
    (served,) = hosts["algo-3"].events("batches_served")
    return served["by_host"]


def steps_until_first(hosts: Hosts, preparer: str, gate: str) -> float:
    """Steps from a gate to the first batch by a host, on the rank that had it soonest."""
    epoch, step = map(int, gate.split("-"))

    def after_gate(host: Host) -> list[str]:
        batches = received(host)
        return [batch.host for batch in batches if (batch.epoch, batch.step) >= (epoch, step)]

    preparers = map(after_gate, train_hosts(hosts))
    found = (names.index(preparer) for names in preparers if preparer in names)
    return min(found, default=math.inf)


@pytest.mark.long
@pytest.mark.parametrize(
    "seconds", [0.0, pytest.param(60.0, marks=pytest.mark.slow)], ids=["at once", "after 60 s"]
)
def test_a_data_host_that_comes_within_an_epoch_shares_the_work(
    make_job: MakeHosts, tmp_path: Path, seconds: float
) -> None:
    hosts = make_job(FIRST_GATE)
    hosts.start("algo-2", "algo-3", "algo-4")
    wait_at(hosts, FIRST_GATE)
    due = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= due)
    hosts.start("algo-1")
    wait_until(lambda: joined(hosts, "algo-1"))
    (tmp_path / FIRST_GATE).touch()

    assert set(hosts.wait().values()) == {0}, hosts.output()
    check_received(hosts)
    assert steps_until_first(hosts, "algo-1", FIRST_GATE) <= 2 * WINDOW
    assert all(count > 10 for count in by_host(hosts).values()), by_host(hosts)


@pytest.mark.long
def test_a_host_whose_workers_were_all_asked_to_leave_leaves_the_job_running(
    make_job: MakeHosts, tmp_path: Path
) -> None:
    hosts = make_job(SECOND_GATE, workers_per_host=2)
    hosts.start()
    wait_until(lambda: len(joined(hosts, "algo-1")) == 2 and received(hosts["algo-3"]))
    asked = joined(hosts, "algo-1")
    for pid in asked:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: len(hosts["algo-1"].events("worker_drained")) == 2)
    wait_at(hosts, SECOND_GATE)
    host = hosts["algo-1"].process
    assert host is not None
    assert host.poll() is None, "the host waits for the end of the job"
    (tmp_path / SECOND_GATE).touch()

    assert set(hosts.wait().values()) == {0}, hosts.output()
    check_received(hosts)
    assert any(event["leases"] for event in left(hosts, asked)), "they had leases to give back"
    assert not hosts["algo-1"].events("worker_died")
    assert by_host(hosts)["algo-2"] > by_host(hosts)["algo-1"] > 0
