"""What a host receives and sends, where it has a network of its own."""

from __future__ import annotations

import statistics
import warnings
from pathlib import Path

import pytest
from bench import fit

from launcher import InstanceGroup
from launcher.client.jobs import Job
from launcher.client.sessions import LocalSession
from launcher.runtime import network_fields, traffic_in

INTERFACES = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 5000     60    0    0    0     0          0         0     5000      60    0    0    0
  eth0: 1000     10    0    0    0     0          0         0      300       3    0    0    0
  eth1:   10      1    0    0    0     0          0         0        5       1    0    0    0
docker0: 900      9    0    0    0     0          0         0      900       9    0    0    0
"""
#: Host algo-1 sends ten megabytes a second to algo-2, for longer than two events.
SCRIPT = """
import os, socket, time

hosts, me = os.environ["SM_HOSTS"], os.environ["SM_CURRENT_HOST"]
if me == "algo-2":
    server = socket.create_server(("", 7800))
    peer = server.accept()[0]
    while peer.recv(1 << 20):
        pass
else:
    while True:
        try:
            peer = socket.create_connection(("algo-2", 7800), timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    for _ in range(130):
        peer.sendall(bytes(1_000_000))
        time.sleep(0.1)
"""


def test_interfaces_within_the_host_do_not_count() -> None:
    assert traffic_in(INTERFACES) == (1010, 305)
    assert traffic_in("\n".join(INTERFACES.splitlines()[:3])) is None
    assert traffic_in("") is None


def test_rates_are_of_the_time_between_two_readings() -> None:
    assert network_fields((1000, 300), (6000, 800), 5.0) == {
        "received_bytes_per_second": 1000,
        "sent_bytes_per_second": 100,
    }
    assert network_fields((1000, 300), (0, 0), 5.0)["sent_bytes_per_second"] == 0, "a new interface"
    assert network_fields(None, (6000, 800), 5.0) == {}


def run(folder: Path, isolation: str, script: str) -> Job:
    groups = [InstanceGroup("train_group", "ml.c5.xlarge", 2)]
    session = LocalSession(folder / "home", isolation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two hosts, but no distribution
        return fit(session, folder / "code", {"train.py": script}, instance_groups=groups)


@pytest.mark.long
@pytest.mark.usefixtures("network_works")
def test_hosts_with_networks_have_a_series_of_their_traffic(tmp_path: Path) -> None:
    series = run(tmp_path, "network", SCRIPT).metric_series()
    rates = {
        (each.metric_name.removeprefix("host/"), each.host): statistics.median(each.values)
        for each in series.series
    }
    assert rates["sent_bytes_per_second", "algo-1"] > 1e6
    assert rates["received_bytes_per_second", "algo-2"] > 1e6
    assert rates["received_bytes_per_second", "algo-1"] < 1e6
    assert rates["sent_bytes_per_second", "algo-2"] < 1e6


@pytest.mark.long
def test_hosts_that_share_the_machines_network_have_none(tmp_path: Path) -> None:
    names = run(tmp_path, "process", "import time\ntime.sleep(7)").metric_series().names
    assert "host/cpu" in names
    assert not {name for name in names if "bytes_per_second" in name}
