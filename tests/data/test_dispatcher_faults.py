"""A dispatcher that dies or freezes, and workers that are slow or leave: ranks notice a pause."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from engine_processes import processes
from hosts import Host, Hosts
from made_hosts import MakeHosts
from programs import PIPELINE, READER
from waiting import wait_until

from launcher.runtime import KILLED_AFTER

SLOW = PIPELINE.replace("noise = ", "import time; time.sleep(0.005)\n        noise = ")
#: Reads four epochs, and says when each batch came.
TIMED = READER.replace("range(2)", "range(4)").replace(
    "        digest.update(batch",
    "        print('batch', flush=True)\n        digest.update(batch",
    1,
)
FILES = {"pipeline.py": SLOW, "train.py": TIMED}


def wait_for_batches(hosts: Hosts, count: int) -> None:
    hosts.await_output("\nbatch", times=count)


def served(hosts: Hosts) -> dict[str, Any]:
    """What the dispatcher has counted."""
    (event,) = [e for host in hosts.hosts.values() for e in host.events("batches_served")]
    return event


@pytest.fixture
def expected(make_hosts: MakeHosts) -> list[str]:
    """The hashes of the same job in-process."""
    calm = make_hosts({**FILES, "pipeline.py": PIPELINE}, train=2)
    calm.run()
    return calm.hashes()


def check(hosts: Hosts, expected: list[str]) -> None:
    """The job ends well, and its ranks have read what they should, all of it counted once."""
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert hosts.hashes() == expected
    read = [epoch for host in hosts.hosts.values() for epoch in host.events("data_epoch")]
    steps = sum(epoch["steps"] for epoch in read)
    assert sum(served(hosts)["received"].values()) == steps
    assert sum(served(hosts)["by_host"].values()) == steps
    assert hosts.processes() == []


@pytest.mark.long
def test_a_very_slow_worker_delays_no_rank(make_hosts: MakeHosts) -> None:
    """Its batches take 30 s each; without it, all of them take a few seconds."""
    slow = PIPELINE.replace(
        "noise = ",
        "import os, time\n        time.sleep(4 if "
        "os.path.exists(os.environ['SLOW'] + os.environ['SM_CURRENT_HOST']) else 0.005)\n"
        "        noise = ",
    )
    switch = Path(os.environ.get("TMPDIR", "/tmp")) / f"slow-{os.getpid()}-"
    hosts = make_hosts(
        {**FILES, "pipeline.py": slow}, data=2, train=1, environment={"SLOW": str(switch)}
    )
    hosts.start()
    wait_for_batches(hosts, 6)
    marker = Path(f"{switch}algo-1")
    marker.touch()
    started = time.monotonic()
    try:
        assert hosts["algo-3"].wait() == 0, hosts.output()
    finally:
        marker.unlink()
    assert time.monotonic() - started < 25
    hosts.wait()


# What cannot be survived ---------------------------------------------------------------------


@pytest.mark.long
def test_a_dispatcher_that_dies_again_and_again_fails_the_job(make_hosts: MakeHosts) -> None:
    hosts = make_hosts(FILES, data=1, train=1, environment={"PYTHONFAULTHANDLER": "0"})
    hosts.start()
    wait_for_batches(hosts, 1)
    killed: set[int] = set()

    def kill() -> bool:
        for pid in set(processes(hosts, "launcher.data.dispatcher")) - killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        return hosts["algo-2"].process is not None and hosts["algo-2"].process.poll() is not None

    wait_until(kill)
    assert set(hosts.wait().values()) == {0, 1}
    assert (hosts["algo-2"].failure or "").startswith(
        "host algo-2 (train_group): the dispatcher ended 6 times within 30 s, last: "
        "killed by SIGKILL"
    )
    assert hosts.processes() == []


@pytest.mark.long
def test_a_receiver_that_is_killed_fails_the_job_and_is_named(make_hosts: MakeHosts) -> None:
    hosts = make_hosts(FILES, data=1, train=2)
    hosts.start()
    wait_for_batches(hosts, 3)
    (receiver,) = processes(hosts, "launcher.data.receiver", "algo-3")
    os.kill(receiver, signal.SIGKILL)
    codes = hosts.wait()
    assert codes["algo-3"] == 1
    assert (hosts["algo-3"].failure or "").startswith(
        "host algo-3 (train_group): the receiver ended: killed by SIGKILL"
    )
    assert hosts.processes() == []


# Stopped processes -------------------------------------------------------------------------------


@pytest.mark.long
def test_a_receiver_that_is_stopped_is_named_fails_the_job_and_costs_no_work(
    make_hosts: MakeHosts,
) -> None:
    hosts = make_hosts(FILES, data=2, train=1)
    hosts.start()
    wait_for_batches(hosts, 10)
    (receiver,) = processes(hosts, "launcher.data.receiver")
    os.kill(receiver, signal.SIGSTOP)
    leader = hosts["algo-3"]
    wait_until(lambda: leader.events("process_stopped"))
    assert named_as_stopped(leader) == ("launcher.data.receiver", receiver)
    (silent,) = wait_until(lambda: leader.events("receiver_silent"))
    assert silent["receiver"] == "algo-3"
    leased = wait_until(lambda: leases(leader))  # in the dispatcher's metrics, every 30 s
    assert leader.wait() != 0
    assert "it had been stopped (SIGSTOP) for 30 s, and was killed" in str(leader.failure)
    assert leader.events("stopped_process_killed")
    assert leased < 3 * len(hosts.members["data_group"]) * 64
    hosts.wait()


def leases(leader: Host) -> int:
    metrics = [e for e in leader.events("data_metrics") if e["of"] == "dispatcher"]
    return int(metrics[-1]["figures"]["leases"]) if metrics else 0  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "host"), [("dispatcher", "algo-3"), ("worker", "algo-1")])
def test_a_process_that_stays_stopped_is_named_killed_and_replaced(
    make_hosts: MakeHosts, expected: list[str], module: str, host: str
) -> None:
    files = {**FILES, "pipeline.py": SLOW.replace("0.005", "0.25")}
    hosts = make_hosts(files, data=2, train=2)
    hosts.start()
    wait_for_batches(hosts, 10)
    (process,) = processes(hosts, f"launcher.data.{module}", host)
    os.kill(process, signal.SIGSTOP)
    if module == "worker":
        wait_until(lambda: len(joined(hosts["algo-3"], host)) == 2)
    check(hosts, expected)
    assert named_as_stopped(hosts[host]) == (f"launcher.data.{module}", process)
    (killed,) = hosts[host].events("stopped_process_killed")
    assert killed["pid"] == process
    silent = hosts["algo-3"].events("workers_silent")
    assert [each["workers"] for each in silent] == [[f"{host}/0/{process}"]] * (module == "worker")


@pytest.mark.slow
def test_a_rank_that_stays_stopped_is_named_and_is_not_killed(
    make_hosts: MakeHosts, expected: list[str]
) -> None:
    """The others wait for it, and it reads on when it is continued."""
    hosts = make_hosts(FILES, data=1, train=2)
    hosts.start()
    wait_for_batches(hosts, 10)
    (rank,) = processes(hosts, "launcher.runtime.launch.rank", "algo-3")
    os.kill(rank, signal.SIGSTOP)
    wait_until(lambda: hosts["algo-3"].events("process_stopped"))
    assert named_as_stopped(hosts["algo-3"]) == ("launcher.runtime.launch.rank", rank)
    limit = time.monotonic() + KILLED_AFTER + 5.0
    wait_until(lambda: time.monotonic() > limit)
    os.kill(rank, signal.SIGCONT)
    check(hosts, expected)
    assert not hosts["algo-3"].events("stopped_process_killed")


def joined(leader: Host, data_host: str) -> list[object]:
    """The workers of a data host that have joined, by their names."""
    names = [event["worker"] for event in leader.events("worker_joined")]
    return [name for name in names if str(name).startswith(f"{data_host}/")]


def named_as_stopped(host: Host) -> tuple[object, object]:
    """The module and the process that a host has named, once, and in time."""
    (named,) = host.events("process_stopped")
    assert int(str(named["seconds"])) <= 10
    return named["process"], named["pid"]
