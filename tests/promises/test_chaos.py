"""Workers and dispatcher killed and frozen at random in whole jobs: no batch is other than it was.

The lean jobs of tests/promises have many more schedules, and more kinds of faults.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from programs import PIPELINE, READER

pytestmark = pytest.mark.slow

SLOW = PIPELINE.replace("noise = ", "import time; time.sleep(0.02)\n        noise = ")


def workers(hosts: Hosts) -> list[int]:
    found = []
    for host in hosts.hosts.values():
        left = {event["pid"] for event in host.events("worker_left")}
        found += [e["pid"] for e in host.events("worker_joined") if e["pid"] not in left]
    return [int(pid) for pid in found]  # type: ignore[call-overload]


def dispatcher(hosts: Hosts) -> int:
    """The process, or 0 while there is none."""
    for pid in hosts.processes("algo-3"):
        with contextlib.suppress(OSError):
            if b"launcher.data.dispatcher" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return 0


@pytest.mark.parametrize("seed", range(20))
def test_faults_change_no_batch(make_hosts: Callable[..., Hosts], seed: int) -> None:
    files = {"pipeline.py": SLOW, "train.py": READER.replace("range(2)", "range(4)")}
    calm = make_hosts(files, train=2)
    calm.start()
    assert set(calm.wait().values()) == {0}

    coin = random.Random(seed)
    hosts = make_hosts(files, data=2, train=2, workers_per_host=2)
    hosts.start()
    frozen: dict[int, float] = {}
    faults = restarts = 0
    train = [hosts["algo-3"].process, hosts["algo-4"].process]
    deadline = time.monotonic() + 240
    while any(process is not None and process.poll() is None for process in train):
        assert time.monotonic() < deadline, hosts.output()
        now = time.monotonic()
        for pid in [pid for pid, until in frozen.items() if until < now]:
            send(pid, signal.SIGCONT)
            del frozen[pid]
        alive = [pid for pid in workers(hosts) if pid not in frozen]
        if len(alive) > 1 and faults < 12:
            victim = coin.choice(alive)
            fate = coin.random()
            if fate < 0.2 and restarts < 4:  # six within 30 s end the job
                restarts += 1
                faults += send(dispatcher(hosts), signal.SIGKILL)
            elif fate < 0.6:
                faults += send(victim, signal.SIGKILL)
            else:
                faults += send(victim, signal.SIGSTOP)
                frozen[victim] = now + coin.uniform(0.5, 6.0)
        time.sleep(0.4)  # the rhythm of the faults
    for pid in frozen:
        send(pid, signal.SIGCONT)

    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert hosts.hashes() == calm.hashes()
    assert faults >= 4
    assert hosts.processes() == []


def test_data_hosts_that_are_all_frozen_end_the_job(make_hosts: Callable[..., Hosts]) -> None:
    hosts = make_hosts({"pipeline.py": SLOW, "train.py": READER}, data=2)
    hosts.start()
    deadline = time.monotonic() + 500
    while len(workers(hosts)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for pid in [*hosts.processes("algo-1"), *hosts.processes("algo-2")]:
        send(pid, signal.SIGSTOP)
    assert hosts["algo-3"].wait() == 1
    failure = hosts["algo-3"].failure or ""
    assert "every data worker is gone or silent for" in failure
    assert "data hosts: algo-1, algo-2" in failure


def send(pid: int, number: signal.Signals) -> bool:
    if pid == 0:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
