"""What a receiver tells the dispatcher of its runs, however it has come to know it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from launcher.data.control import messages as m
from launcher.data.receiver import ProgressReporter
from launcher.data.receiver import progress_reporter as accounts

BUDGET = 100


def account_of(*runs: str) -> ProgressReporter:
    """With these runs open, which has been told."""
    account = ProgressReporter("algo-2", ("127.0.0.1", 1), BUDGET)
    for run in runs:
        account.open(m.OpenRun(run=run, rank=0, plan={}))
    if runs:
        assert [type(message) for message in account.wait_for_messages()] == [m.OpenRun] * len(runs)
    return account


def standing(account: ProgressReporter) -> m.RegisterReceiver:
    registration, *_ = account.registration()
    assert isinstance(registration, m.RegisterReceiver)
    return registration


@pytest.mark.parametrize("ways", ["marks", "words", "marks, then words", "words, then marks"])
def test_a_batch_is_consumed_once_however_often_it_is_reported(ways: str) -> None:
    account = account_of("r")
    for step in range(3):
        account.arrived("r", step, "algo-1/0/7", 10)
    for way in ways.split(", then "):
        if way == "words":
            account.consumed("r", [0, 1])
        else:
            account.record_consumed_mark("r", 0, 10)
            account.record_consumed_mark("r", 1, 10)
    (progress,) = account.wait_for_messages()
    assert progress == m.ProgressUpdate(
        arrived={"r": [(step, "algo-1/0/7", 10) for step in range(3)]}, taken={"r": [0, 1]}
    )
    registration = standing(account)
    assert (registration.prepared, registration.received) == ({"algo-1": 2}, {"0": 2})
    (run,) = registration.runs
    assert (run["taken"], run["arrived"], run["largest"]) == (2, [(2, "algo-1/0/7")], 10)


def test_the_registration_has_the_unreported_progress() -> None:
    account = account_of("r")
    account.arrived("r", 1, "algo-1/0/7", 10)
    account.record_consumed_mark("r", 1, 10)
    (run,) = standing(account).runs
    assert (run["taken"], run["early"], run["arrived"]) == (0, [1], [])


def test_what_was_taken_of_a_run_counts_when_it_is_closed_and_nothing_after_that() -> None:
    account = account_of("r")
    account.arrived("r", 0, "algo-1/0/7", 10)
    account.record_consumed_mark("r", 0, 10)
    account.close("r")
    account.arrived("r", 1, "algo-1/0/7", 10)
    account.record_consumed_mark("r", 1, 10)
    progress, closed = account.wait_for_messages()
    assert progress == m.ProgressUpdate(arrived={"r": [(0, "algo-1/0/7", 10)]}, taken={"r": [0]})
    assert closed == m.CloseRun(run="r")
    assert standing(account).received == {"0": 1}


@pytest.mark.parametrize(("size", "is_told"), [(11, True), (10, False)])
def test_only_a_batch_larger_than_all_before_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, size: int, is_told: bool
) -> None:
    """Workers may hold more leases than there is room for batches of that size."""
    account = account_of("r")
    account.arrived("r", 0, "algo-1/0/7", 10)
    account.wait_for_messages()
    monkeypatch.setattr(accounts, "_REPORT_INTERVAL", 3600.0)
    account.arrived("r", 1, "algo-1/0/7", size)
    told: list[m.Message] = []
    teller = threading.Thread(target=lambda: told.extend(account.wait_for_messages()), daemon=True)
    teller.start()
    teller.join(20.0 if is_told else 0.2)
    assert bool(told) is is_told


def test_the_order_of_what_happened_is_kept_between_other_news() -> None:
    account = account_of("r")
    account.arrived("r", 0, "algo-1/0/7", 10)
    account.damaged("r", 1, "algo-1/0/7")
    account.arrived("r", 1, "algo-1/1/8", 10)
    told = account.wait_for_messages()
    assert [type(message) for message in told] == [m.ProgressUpdate, m.Damaged, m.ProgressUpdate]


@pytest.mark.parametrize(
    "happens",
    [
        lambda account: account.arrived("r", 0, "algo-1/0/7", 10),
        lambda account: account.ask(m.Describe(dataset="a:b")),
        lambda account: account.leave(),
    ],
    ids=["arrived", "asked", "left"],
)
def test_who_waits_for_news_is_woken_by_it(happens: Any) -> None:
    account = account_of("r")
    told: list[m.Message] = []
    waiting = threading.Thread(target=lambda: told.extend(account.wait_for_messages()), daemon=True)
    waiting.start()
    waiting.join(0.2)  # beyond the pause between two words
    assert not told
    happens(account)
    waiting.join(10)
    assert len(told) == 1
