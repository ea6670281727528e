"""Leases: every batch arrives whatever workers do, and no run is further ahead than its budget."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.data.ledger import DEEPEST, FIRST_WINDOW, LATE_AFTER, SILENCE, Ledger


class Simulation:
    """Workers, receivers and ranks around a ledger, with faults by a seeded coin."""

    def __init__(self, seed: int, *, steps: int, workers: int, budget: int, size: int) -> None:
        self.coin = random.Random(seed)
        self.ledger = Ledger(budget)
        self.steps, self.size = steps, size
        self.now = 0.0
        self.names = iter(range(10**6))
        self.work: dict[str, list[tuple[str, int]]] = {}
        self.silent: set[str] = set()
        self.got: dict[str, set[int]] = {"a": set(), "b": set()}
        self.taken = {"a": 0, "b": 0}
        for run, rank in (("a", 0), ("b", 1)):
            self.ledger.open_run(run, receiver="host", rank=rank, steps=steps)
        for _ in range(workers):
            self.hire()

    def hire(self) -> None:
        name = f"w{next(self.names)}"
        self.work[name] = []
        self.ledger.add_worker(name, "data", self.now)

    def tick(self) -> None:
        self.now += 0.1
        for assignment in self.ledger.assign(self.now):
            self.work[assignment.worker] += [(assignment.run, step) for step in assignment.steps]
            assert len(self.work[assignment.worker]) <= DEEPEST
        for name in list(self.work):
            self.live(name)
        for run in self.got:
            while self.taken[run] in self.got[run] and self.coin.random() < 0.7:
                self.ledger.taken(run, self.taken[run])
                self.taken[run] += 1

    def live(self, name: str) -> None:
        fate = self.coin.random()
        if fate < 0.02:
            self.ledger.remove_worker(name)
            del self.work[name]
            self.hire()
        elif fate < 0.04:
            self.silent.add(name)
        elif fate < 0.3 and name in self.silent:
            self.silent.discard(name)
        if name in self.work and name not in self.silent:
            self.ledger.seen(name, self.now)
            if self.work[name] and fate > 0.4:
                self.deliver(name, *self.work[name].pop(0))

    def deliver(self, name: str, run: str, step: int) -> None:
        self.ledger.sent(name, run, step, 0.1)
        if step not in self.got[run]:  # the receiver keeps the first copy
            self.got[run].add(step)
            self.ledger.arrived(run, step, name, "data", self.size)
        if self.size:
            ahead = max(self.got[run]) + 1 - self.taken[run]
            assert ahead <= max(FIRST_WINDOW, self.ledger_window())

    def ledger_window(self) -> int:
        return max(1, 500 // self.size)

    @property
    def complete(self) -> bool:
        return all(taken == self.steps for taken in self.taken.values())


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 5), st.integers(1, 400))
def test_all_batches_arrive_whatever_happens_to_workers(
    seed: int, steps: int, workers: int, size: int
) -> None:
    world = Simulation(seed, steps=steps, workers=workers, budget=1000, size=size)
    for _ in range(20000):
        if world.complete:
            break
        world.tick()
    assert world.complete
    assert world.ledger.received == {0: steps, 1: steps}
    assert sum(world.ledger.prepared.values()) == 2 * steps


def grants(ledger: Ledger, now: float) -> dict[str, list[int]]:
    granted: dict[str, list[int]] = {}
    for assignment in ledger.assign(now):
        granted.setdefault(assignment.worker, []).extend(assignment.steps)
    return granted


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(1000)
    ledger.open_run("run", receiver="host", rank=0, steps=10)
    ledger.add_worker("one", "data", 0.0)
    return ledger


def test_a_dead_workers_leases_go_to_another_at_once(ledger: Ledger) -> None:
    assert grants(ledger, 0.0) == {"one": [0, 1]}
    assert ledger.remove_worker("one") == [("run", 0), ("run", 1)]
    ledger.add_worker("two", "data", 0.1)
    assert grants(ledger, 0.1) == {"two": [0, 1]}


def test_a_silent_workers_leases_are_given_to_another_too(ledger: Ledger) -> None:
    grants(ledger, 0.0)
    later = SILENCE + 0.1
    ledger.add_worker("two", "data", later)
    assert grants(ledger, later) == {"two": [0, 1]}


def test_a_late_lease_is_given_to_another_too(ledger: Ledger) -> None:
    grants(ledger, 0.0)
    later = LATE_AFTER + 0.1
    ledger.seen("one", later)
    ledger.add_worker("two", "data", later)
    assert grants(ledger, later) == {"two": [0, 1]}
    assert grants(ledger, later) == {}


def test_a_lease_of_two_silent_workers_goes_to_a_third(ledger: Ledger) -> None:
    grants(ledger, 0.0)
    ledger.add_worker("two", "data", SILENCE + 0.1)
    assert grants(ledger, SILENCE + 0.1) == {"two": [0, 1]}
    later = 3 * SILENCE
    ledger.add_worker("three", "data", later)
    assert grants(ledger, later) == {"three": [0, 1]}


def test_a_batch_that_workers_die_of_is_poisoned(ledger: Ledger) -> None:
    for worker in ("one", "two", "three"):
        assert ledger.poisoned() == []
        ledger.add_worker(worker, "data", 0.0)
        assert grants(ledger, 0.0) == {worker: [0, 1]}
        ledger.remove_worker(worker)
    assert ledger.poisoned() == [("run", 0)]  # step 1 only waited behind it


def test_the_window_follows_from_the_size_of_the_batches(ledger: Ledger) -> None:
    for worker in ("two", "three", "four"):
        ledger.add_worker(worker, "data", 0.0)
    assert sum(len(steps) for steps in grants(ledger, 0.0).values()) == FIRST_WINDOW
    ledger.arrived("run", 0, "one", "data", 200)
    assert sum(len(steps) for steps in grants(ledger, 0.1).values()) == 1000 // 200 - FIRST_WINDOW


def test_runs_of_one_host_share_its_budget(ledger: Ledger) -> None:
    ledger.open_run("other", receiver="host", rank=1, steps=10)
    ledger.add_worker("two", "data", 0.0)
    grants(ledger, 0.0)
    for run in ("run", "other"):
        ledger.arrived(run, 0, "one", "data", 100)
        ledger.arrived(run, 1, "one", "data", 100)
    assert sum(len(steps) for steps in grants(ledger, 0.1).values()) == 4  # room, not window
    ledger.close_run("other")
    assert "other" not in ledger.runs
