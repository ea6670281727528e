"""A dispatcher that dies or freezes, and workers that are slow or leave: ranks notice a pause."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Hosts
from programs import PIPELINE, READER
from waiting import wait_until

MakeHosts = Callable[..., Hosts]
SLOW = PIPELINE.replace("noise = ", "import time; time.sleep(0.005)\n        noise = ")
FILES = {"pipeline.py": SLOW, "train.py": READER.replace("range(2)", "range(4)")}


def pids(hosts: Hosts, module: str) -> list[int]:
    return [pid for pid in hosts.processes() if module in command(pid)]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def hashes(hosts: Hosts) -> list[str]:
    found = sorted(re.findall(r"^rank=\d+ epoch=\d+ sha256=\w+$", hosts.output(), re.MULTILINE))
    assert found, hosts.output()
    return found


def served(hosts: Hosts, leader: str) -> dict[str, int]:
    """Batches by the data host that prepared them; checked against what the ranks have read."""
    (event,) = hosts[leader].events("batches_served")
    read = [epoch for host in hosts.hosts.values() for epoch in host.events("data_epoch")]
    assert sum(event["by_host"].values()) == sum(epoch["steps"] for epoch in read)
    assert sum(event["received"].values()) == sum(epoch["steps"] for epoch in read)
    return event["by_host"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    return {}


def test_a_dispatcher_that_is_killed_three_times_changes_nothing(make_hosts: MakeHosts) -> None:
    calm = make_hosts({**FILES, "pipeline.py": PIPELINE}, train=2)
    calm.start()
    assert set(calm.wait().values()) == {0}

    hosts = make_hosts(FILES, data=2, train=2)
    hosts.start()
    leader = hosts["algo-3"]
    for kill in range(3):
        wait_until(lambda kill=kill: len(re.findall("epoch=", leader.output)) > 2 * kill + 1)
        (dispatcher,) = pids(hosts, "launcher.data.dispatcher")
        os.kill(dispatcher, signal.SIGKILL)
        wait_until(lambda kill=kill: len(leader.events("service_restarted")) == kill + 1)
        wait_until(lambda: len(pids(hosts, "launcher.data.dispatcher")) == 1)
    assert set(hosts.wait().values()) == {0}, hosts.output()
    assert hashes(hosts) == hashes(calm)
    assert set(served(hosts, "algo-3")) == {"algo-1", "algo-2"}
    assert hosts.processes() == []
