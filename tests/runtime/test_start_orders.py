"""Hosts start in any order, a minute apart: every rank reads the same, and every host ends well."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping

import pytest
from hosts import Hosts
from signed import FILES, check_received
from waiting import wait_until

from launcher.runtime import jsonl_socket

#: The hosts of each job, by their part in it; "train" is a train host that is not the leader.
NAMES = {"data": "algo-1", "leader": "algo-2", "train": "algo-3"}
Order = tuple[str, ...]
ALL: list[Order] = list(itertools.permutations(NAMES))
LEADER_LAST, DATA_LAST = ("data", "train", "leader"), ("leader", "train", "data")


def start_apart(jobs: Mapping[Order, Hosts], skew: float) -> None:
    """Start the hosts of each job in its order, the last of them `skew` seconds after the first."""
    began = time.monotonic()
    for place in range(len(NAMES)):
        due = began + place * skew / (len(NAMES) - 1)
        wait_until(lambda due=due: time.monotonic() >= due)
        for order, hosts in jobs.items():
            hosts.start(NAMES[order[place]])


@pytest.mark.long
@pytest.mark.parametrize(
    ("orders", "skew"),
    [
        pytest.param([LEADER_LAST, DATA_LAST], 1.5, id="the leader, or the data, last"),
        pytest.param(ALL, 80.0, id="all orders, 80 s", marks=pytest.mark.slow),
    ],
)
def test_hosts_may_start_in_any_order_long_apart(
    make_hosts: Callable[..., Hosts], orders: list[Order], skew: float
) -> None:
    """The jobs of all orders wait side by side."""
    jobs = {order: make_hosts(FILES, data=1, train=2, start_timeout=180.0) for order in orders}
    start_apart(jobs, skew)
    for order, hosts in jobs.items():
        assert hosts.wait() == dict.fromkeys(NAMES.values(), 0), f"{order}\n{hosts.output()}"
        check_received(hosts)
        first, waited = hosts[NAMES[order[0]]], skew * order.index("leader") / 2
        assert bool(first.events("waiting_for_peer")) == (waited > jsonl_socket.LOG_INTERVAL), order
