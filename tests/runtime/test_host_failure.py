"""The loss of a host: the end of the job, or with host_failure "tolerate" only of that host."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

import pytest
from hosts import Hosts
from programs import PIPELINE, READER

from launcher.runtime import HEARTBEAT_INTERVAL
from launcher.shared import HOST_FAILURE_VARIABLE, HostFailure

MakeHosts = Callable[..., Hosts]
SLOW = PIPELINE.replace("noise = ", "import time; time.sleep(0.01)\n        noise = ")
#: After the loss, which some notice at once and others seconds later, there is much to read yet.
FILES = {"pipeline.py": SLOW, "train.py": READER.replace("range(2)", "range(8)")}


def reading(make_hosts: MakeHosts, host_failure: HostFailure, data: int = 2) -> Hosts:
    """Hosts whose ranks have read the first of eight epochs."""
    variables = {HOST_FAILURE_VARIABLE: host_failure.value}
    hosts = make_hosts(FILES, data=data, train=2, environment=variables)
    hosts.start()
    hosts.await_output("epoch=0")
    return hosts


def hashes(hosts: Hosts) -> set[str]:
    return set(re.findall(r"^rank=\d+ epoch=\d+ sha256=\w+$", hosts.output(), re.MULTILINE))


@pytest.mark.long
def test_a_tolerated_data_host_changes_no_batch(make_hosts: MakeHosts) -> None:
    calm = make_hosts(FILES, train=2)
    calm.run()
    hosts = reading(make_hosts, HostFailure.TOLERATE)
    hosts.kill("algo-1")

    assert hosts.wait() == {"algo-1": -9, "algo-2": 0, "algo-3": 0, "algo-4": 0}, hosts.output()
    assert len(hashes(hosts)) == 16
    assert hashes(hosts) == hashes(calm)
    assert hosts.processes() == []


@pytest.mark.parametrize("host_failure", HostFailure)
def test_a_host_that_never_comes_is_missed(
    make_hosts: MakeHosts, host_failure: HostFailure
) -> None:
    variables = {HOST_FAILURE_VARIABLE: host_failure.value}
    hosts = make_hosts({"train.py": ""}, train=2, start_timeout=3.0, environment=variables)
    hosts.start("algo-1")
    if host_failure is HostFailure.TOLERATE:
        assert hosts.wait() == {"algo-1": 0}, hosts.output()
        return
    assert hosts.wait() == {"algo-1": 1}, hosts.output()
    assert hosts["algo-1"].failure == (
        "host algo-2 (train_group): the host has not joined the job in 3 s (start_timeout)"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("host_failure", "data"),
    [(HostFailure.FAIL, 2), (HostFailure.TOLERATE, 1)],
    ids=["fail", "tolerate, and no other host in the group"],
)
def test_a_lost_data_host_fails_the_job(
    make_hosts: MakeHosts, host_failure: HostFailure, data: int
) -> None:
    hosts = reading(make_hosts, host_failure, data)
    hosts.kill("algo-1")
    codes = hosts.wait()
    assert [codes[name] for name in hosts.members["train_group"]] == [1, 1], hosts.output()
    assert 'origin="host algo-1 (data_group): the host died"' in hosts.output()
    assert hosts.processes() == []


@pytest.mark.long
def test_a_host_that_died_with_unread_lines_has_died(make_hosts: MakeHosts) -> None:
    """Its kernel resets the connections then; this is not the silence of a cut network."""
    hosts = reading(make_hosts, HostFailure.FAIL)
    for pid in hosts.processes("algo-1"):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(2 * HEARTBEAT_INTERVAL)  # the leader sends a line in each
    hosts.kill("algo-1")
    codes = hosts.wait()
    assert [codes[name] for name in hosts.members["train_group"]] == [1, 1], hosts.output()
    assert 'origin="host algo-1 (data_group): the host died"' in hosts.output()
