"""A worker's signs of life."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace

import pytest
from waiting import wait_until

from launcher.data.control import messages as m
from launcher.data.worker import DataWorker, LeaseState


def test_a_heartbeat_reports_all_steps_since_the_previous_one() -> None:
    """A fast worker has news with each batch: they must not pile up, nor each be told alone."""
    said: list[m.Message] = []
    worker = SimpleNamespace(
        _control=SimpleNamespace(send=said.append),
        _leases=LeaseState("algo-1/0/1", 1),
        _wake=queue.SimpleQueue(),
        _leaving=False,
    )
    for _ in range(1000):
        worker._wake.put(None)
    threading.Thread(target=DataWorker._send_heartbeats, args=(worker,), daemon=True).start()
    wait_until(lambda: len(said) >= 3)
    assert worker._wake.empty()


def holdings_of(seconds: float) -> LeaseState:
    """A worker of this pace, which was told."""
    holdings = LeaseState("algo-1/0/1", 1)
    holdings.record_seconds("prepare", seconds)
    holdings.heartbeat()
    return holdings


@pytest.mark.parametrize(
    ("told", "latest", "is_news"),
    [
        (0.010, 0.014, False),
        (0.010, 0.100, True),
        (0.100, 0.001, False),  # the pace is a mean
        (0.0001, 0.0014, False),
        (0.0001, 0.020, True),
    ],
)
def test_a_change_of_pace_is_news_where_it_changes_the_leases(
    told: float, latest: float, is_news: bool
) -> None:
    holdings = holdings_of(told)
    assert not holdings.has_changes
    holdings.record_seconds("prepare", latest)
    assert holdings.has_changes == is_news


@pytest.mark.parametrize("seconds", [0.0001, 0.0015, 1.0])
def test_the_first_pace_is_news(seconds: float) -> None:
    """A worker whose pace nobody knows is leased two batches."""
    holdings = LeaseState("algo-1/0/1", 1)
    holdings.heartbeat()
    assert not holdings.has_changes
    holdings.record_seconds("prepare", seconds)
    assert holdings.has_changes


def test_a_worker_that_gets_faster_reports_it() -> None:
    holdings = holdings_of(0.1)
    batches = 0
    while not holdings.has_changes:
        holdings.record_seconds("prepare", 0.001)
        batches += 1
    assert batches == 4  # 0.8 ** 4 < 1 / 2


def test_revoked_steps_are_not_started_and_started_ones_continue() -> None:
    holdings = LeaseState("algo-1/0/1", 1)
    holdings.lease("r", [1, 2, 3])
    assert holdings.start("r", 1)
    holdings.revoke("r", [1, 2])
    assert not holdings.start("r", 2)
    assert holdings.start("r", 3)
    (registration,) = holdings.registration()
    assert isinstance(registration, m.RegisterWorker)
    assert registration.holds == {"r": [1, 3]}


def test_what_was_taken_back_and_is_leased_again_is_prepared_once() -> None:
    """Both orders wait in the worker's queue."""
    holdings = LeaseState("algo-1/0/1", 1)
    holdings.lease("r", [2])
    holdings.revoke("r", [2])
    holdings.lease("r", [2])
    assert holdings.start("r", 2)
    holdings.finish("r", 2)
    assert not holdings.start("r", 2)
