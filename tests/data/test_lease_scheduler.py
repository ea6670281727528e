"""Leases: every batch arrives whatever workers do, and no run is further ahead than its budget."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.data.dispatcher import (
    FIRST_LATE_AFTER,
    INITIAL_WINDOW,
    LATE_AFTER,
    LATE_FACTOR,
    LIKELY_STARTED,
    MAX_DEATHS,
    SILENCE,
    WORKER_RECONNECT_TIMEOUT,
    ConsumedCounts,
    HealthMonitor,
    LeaseScheduler,
    ReadProgress,
    ReadSpec,
)
from launcher.data.order import ENDLESS
from launcher.shared import MAX_WINDOW

BUDGET = 1000


class Receiver:
    """What the ranks of one host have got and taken; it outlives every dispatcher."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.got: dict[str, dict[int, str]] = {"a": {}, "b": {}}  # who prepared each step
        self.taken = {"a": 0, "b": 0}
        self.counts = ConsumedCounts()
        self.largest = 0

    def progress(self, run: str) -> ReadProgress:
        waiting = {step: w for step, w in self.got[run].items() if step >= self.taken[run]}
        return ReadProgress(head=self.taken[run], arrived=waiting, largest=self.largest)

    @property
    def is_complete(self) -> bool:
        return all(taken == self.steps for taken in self.taken.values())


class Simulation:
    """Workers, a receiver and ranks around a scheduler, with faults by a seeded coin.

    The second run begins when the first has, or follows it.
    """

    def __init__(
        self,
        seed: int,
        *,
        steps: int,
        workers: int,
        size: int,
        follows: bool = False,
        are_lanes: bool = False,
    ) -> None:
        self.are_lanes = are_lanes
        self.coin = random.Random(seed)
        self.size = size
        self.now = 0.0
        self.names = iter(range(10**6))
        self.work: dict[str, list[tuple[str, int]]] = {}
        self.done: dict[str, list[tuple[str, int]]] = {}
        self.silent: set[str] = set()
        self.slow: set[str] = set()
        self.unsaid: list[tuple[str, int, str]] = []  # arrivals not told to the scheduler yet
        self.receiver = Receiver(steps)
        self.after = {"a": None, "b": "a" if follows else None}
        self.scheduler = self.open()
        for _ in range(workers):
            self.hire()

    def open(self) -> LeaseScheduler:
        """A new dispatcher: the receiver is there first, with all that it knows."""
        scheduler = LeaseScheduler(BUDGET)
        counts = self.receiver.counts
        scheduler.counts["host"] = ConsumedCounts.from_message(counts.prepared, counts.received)
        for rank, run in enumerate(self.receiver.got):
            if not self.is_over(run):
                scheduler.open_run(
                    ReadSpec(
                        name=run,
                        receiver="host",
                        rank=rank,
                        steps=self.receiver.steps,
                        is_shard_reader=self.are_lanes,
                        after=self.after[run],
                    ),
                    now=self.now,
                    progress=self.receiver.progress(run),
                )
        return scheduler

    def restart(self) -> None:
        self.unsaid.clear()
        self.scheduler = self.open()
        for name in self.coin.sample(list(self.work), len(self.work)):
            if self.coin.random() < 0.2:  # it died while nobody looked
                del self.work[name]
                self.hire()
            else:
                self.greet(name)

    def greet(self, name: str) -> None:
        holds: dict[str, list[int]] = {}
        for run, step in self.work[name]:
            holds.setdefault(run, []).append(step)
        self.scheduler.add_worker(name, self.now, holds=holds)
        self.done[name] = []

    def hire(self) -> None:
        name = f"data/{next(self.names)}"
        self.work[name] = []
        self.greet(name)
        if self.coin.random() < 0.2:
            self.slow.add(name)

    def tick(self) -> None:
        self.now += 0.1
        if self.coin.random() < 0.02:
            self.restart()
        self.scheduler.poll(self.now)
        for assignment in self.scheduler.assign(self.now):
            self.work[assignment.worker] += [(assignment.run, step) for step in assignment.steps]
        for name in list(self.work):
            self.live(name)
        for run, step, name in self.unsaid:
            self.scheduler.record_arrival(run, step, name, self.size, self.now)
        self.unsaid.clear()
        for run in self.receiver.got:
            self.read(run)

    def read(self, run: str) -> None:
        before = self.after[run]
        if before is not None and not self.is_over(before):
            return
        got, taken = self.receiver.got[run], self.receiver.taken
        while taken[run] in got and self.coin.random() < 0.7:
            self.scheduler.record_consumed(run, taken[run], self.now)
            self.receiver.counts.prepared["data"] += 1
            self.receiver.counts.received[int(run == "b")] += 1
            taken[run] += 1
        if self.is_over(run):
            self.scheduler.close_run(run)

    def is_over(self, run: str) -> bool:
        return self.receiver.taken[run] == self.receiver.steps

    def live(self, name: str) -> None:
        fate = self.coin.random()
        if fate < 0.01:
            self.scheduler.remove_worker(name)
            del self.work[name]
            self.hire()
            return
        if fate < 0.02:
            self.drain(name)
            return
        if fate < 0.04:
            self.silent.add(name)
        elif fate < 0.3:
            self.silent.discard(name)
        if name not in self.silent:
            if self.coin.random() < 0.5:
                done, self.done[name] = self.done[name], []
                self.scheduler.record_heartbeat(name, self.now, seconds=0.05, done=done)
            if self.work[name] and fate > (0.95 if name in self.slow else 0.4):
                self.deliver(name, *self.work[name].pop(0))

    def drain(self, name: str) -> None:
        run_and_step = self.work[name][:1]
        self.scheduler.drain_worker(name, {run: [step] for run, step in run_and_step})
        for run, step in run_and_step:
            self.deliver(name, run, step)
        self.scheduler.remove_worker(name)
        del self.work[name]
        self.hire()

    def deliver(self, name: str, run: str, step: int) -> None:
        self.done[name].append((run, step))
        if self.coin.random() < 0.02:
            return  # lost with its connection, which the worker does not know
        if step in self.receiver.got[run]:
            return  # the receiver keeps the first copy
        self.receiver.got[run][step] = name
        self.receiver.largest = self.size
        self.unsaid.append((run, step, name))
        ahead = max(self.receiver.got[run]) + 1 - self.receiver.taken[run]
        assert ahead <= max(INITIAL_WINDOW, BUDGET // self.size)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.integers(1, 5),
    st.integers(1, 400),
    st.booleans(),
    st.booleans(),
)
def test_all_batches_arrive_whatever_happens(
    seed: int, steps: int, workers: int, size: int, follows: bool, are_lanes: bool
) -> None:
    world = Simulation(
        seed, steps=steps, workers=workers, size=size, follows=follows, are_lanes=are_lanes
    )
    for _ in range(20000):
        if world.receiver.is_complete:
            break
        world.tick()
    assert world.receiver.is_complete
    assert world.scheduler.total().received == {0: steps, 1: steps}
    assert sum(world.scheduler.total().prepared.values()) == 2 * steps


# Workers -------------------------------------------------------------------------------------


def grants(scheduler: LeaseScheduler, now: float) -> dict[str, list[int]]:
    """Leases that go out now, by worker."""
    scheduler.poll(now)
    granted: dict[str, list[int]] = {}
    for assignment in scheduler.assign(now):
        granted.setdefault(assignment.worker, []).extend(assignment.steps)
    return granted


def leased(scheduler: LeaseScheduler, now: float) -> list[int]:
    """Steps that are leased now, to anyone."""
    return [step for steps in grants(scheduler, now).values() for step in steps]


def arrive(
    scheduler: LeaseScheduler, run: str, *steps: int, size: int, worker: str = "one"
) -> None:
    for step in steps:
        scheduler.record_arrival(run, step, worker, size, 0.1)


def read_of(name: str, **parts: Any) -> ReadSpec:
    """A read of ten steps by rank 0 of a host, as a rule."""
    return ReadSpec(**{"name": name, "receiver": "host", "rank": 0, "steps": 10, **parts})


def take(scheduler: LeaseScheduler, run: str, *steps: int, size: int) -> None:
    """Let batches arrive, of which the rank takes one after the other."""
    arrive(scheduler, run, *steps, size=size)
    for step in steps:
        scheduler.record_consumed(run, step, 0.1)


@pytest.fixture
def scheduler() -> LeaseScheduler:
    scheduler = LeaseScheduler(BUDGET)
    scheduler.open_run(read_of("run"), now=0.0)
    scheduler.add_worker("one", 0.0)
    return scheduler


def test_a_dead_workers_leases_go_to_another_at_once(scheduler: LeaseScheduler) -> None:
    assert grants(scheduler, 0.0) == {"one": [0, 1]}
    assert scheduler.remove_worker("one", lost_at=0.1) == [("run", 0), ("run", 1)]
    scheduler.add_worker("two", 0.1)
    assert grants(scheduler, 0.1) == {"two": [0, 1]}


def test_a_silent_workers_leases_are_given_to_another_too(scheduler: LeaseScheduler) -> None:
    grants(scheduler, 0.0)
    later = SILENCE + 0.1
    scheduler.add_worker("two", later)
    assert grants(scheduler, later) == {"two": [0, 1]}
    arrive(scheduler, "run", 0, size=100, worker="one")  # it was not dead after all
    scheduler.record_heartbeat("one", later, seconds=0.01, done=[])
    assert 0 not in leased(scheduler, later)


def test_a_late_lease_is_given_to_another_too_which_has_twice_the_time(
    scheduler: LeaseScheduler,
) -> None:
    grants(scheduler, 0.0)
    for name in ("two", "three"):
        scheduler.add_worker(name, 0.0)

    def later(now: float) -> list[int]:
        for name in ("one", "two", "three"):
            scheduler.record_seen(name, now)
        return leased(scheduler, now)

    first = FIRST_LATE_AFTER + 0.1
    assert later(FIRST_LATE_AFTER - 0.1) == []
    assert later(first) == [0, 1]
    assert later(first + FIRST_LATE_AFTER + 0.1) == []
    assert later(first + 2 * FIRST_LATE_AFTER + 0.1) == [0, 1]


def test_what_is_late_follows_from_the_usual_seconds(scheduler: LeaseScheduler) -> None:
    grants(scheduler, 0.0)
    arrive(scheduler, "run", 0, size=1000)  # after 0.1 s, and there is room for one at a time
    scheduler.record_consumed("run", 0, 0.1)
    scheduler.add_worker("two", 0.1)
    assert leased(scheduler, 0.1 + LATE_AFTER) == []
    assert grants(scheduler, 0.1 + 0.1 * LATE_FACTOR + 0.01) == {"two": [1]}


def test_a_worker_that_is_asked_to_leave_keeps_what_it_has_begun(scheduler: LeaseScheduler) -> None:
    grants(scheduler, 0.0)
    scheduler.drain_worker("one", {"run": [0]})
    scheduler.add_worker("two", 0.1)
    assert grants(scheduler, 0.1) == {"two": [1]}
    assert scheduler.remove_worker("one") == [("run", 0), ("run", 1)]
    assert grants(scheduler, 0.2) == {"two": [0]}
    assert scheduler.pop_poisoned() == []


def test_a_batch_that_was_sent_and_never_arrived_is_leased_again(scheduler: LeaseScheduler) -> None:
    """A connection can break when the kernel has taken the last bytes: the worker cannot know."""
    grants(scheduler, 0.0)
    scheduler.record_heartbeat("one", 1.0, seconds=0.01, done=[("run", 0)])
    assert grants(scheduler, 1.0) == {}
    scheduler.record_heartbeat("one", 2.0, seconds=0.01, done=[])
    assert grants(scheduler, 2.0) == {"one": [0]}


def test_a_slow_worker_gets_one_lease_at_a_time(scheduler: LeaseScheduler) -> None:
    scheduler.record_heartbeat("one", 0.0, seconds=2.0, done=[])
    for name in ("two", "three"):
        scheduler.add_worker(name, 0.0, seconds=0.1)
    arrive(scheduler, "run", 0, size=50)
    scheduler.record_consumed("run", 0, 0.2)
    leases = grants(scheduler, 0.2)
    assert (len(leases["one"]), len(leases["two"]), len(leases["three"])) == (1, 2, 2)


def test_fast_workers_are_leased_blocks(scheduler: LeaseScheduler) -> None:
    scheduler.record_heartbeat("one", 0.0, seconds=0.001, done=[])
    scheduler.open_run(read_of("long", receiver="other", rank=1, steps=1000), now=0.0)
    take(scheduler, "long", 0, size=1)
    scheduler.add_worker("two", 0.1, seconds=0.001)
    (first, *_) = [a for a in scheduler.assign(0.1) if a.run == "long"]
    assert len(first.steps) >= 8


def lose(scheduler: LeaseScheduler, worker: str, at: float = 0.0) -> None:
    """A worker comes, is leased two batches, and its connection ends without a word."""
    scheduler.add_worker(worker, at)
    assert grants(scheduler, at) == {worker: [0, 1]}
    scheduler.remove_worker(worker, lost_at=at)


def test_a_batch_that_workers_die_of_is_poisoned(scheduler: LeaseScheduler) -> None:
    scheduler.remove_worker("one")
    for number in range(MAX_DEATHS):
        assert scheduler.pop_poisoned() == []
        lose(scheduler, f"data/0/{number}", at=2.0 * number)
    assert scheduler.pop_poisoned() == []  # the third may come back
    scheduler.poll(2.0 * MAX_DEATHS + WORKER_RECONNECT_TIMEOUT)
    assert scheduler.pop_poisoned() == [("run", 0)]  # step 1 only waited behind it


def test_a_worker_that_had_sent_a_batch_has_not_died_of_it(scheduler: LeaseScheduler) -> None:
    """It dies at once of the next one: the batch arrives after the connection has ended."""
    scheduler.remove_worker("one")
    lose(scheduler, "data/0/0")
    scheduler.record_arrival("run", 0, "data/0/0", 50, 0.1)
    for number in range(1, MAX_DEATHS):
        scheduler.add_worker(worker := f"data/0/{number}", 2.0 * number)
        assert grants(scheduler, 2.0 * number)[worker][0] == 1
        scheduler.remove_worker(worker, lost_at=2.0 * number)
    scheduler.poll(2.0 * MAX_DEATHS + WORKER_RECONNECT_TIMEOUT)
    assert scheduler.pop_poisoned() == [("run", 1)]


def test_workers_that_were_lost_with_their_host_have_not_died_of_a_batch(
    scheduler: LeaseScheduler,
) -> None:
    """Late batches are prepared by two workers, which may be of one host."""
    scheduler.remove_worker("one")
    for host in range(MAX_DEATHS - 1):
        for slot in range(2):
            lose(scheduler, f"data-{host}/{slot}/1", at=0.1 * slot)
    scheduler.poll(WORKER_RECONNECT_TIMEOUT + 1.0)
    assert scheduler.pop_poisoned() == []
    lose(scheduler, "data-0/0/2", at=7.0)
    scheduler.poll(8.0 + WORKER_RECONNECT_TIMEOUT)
    assert scheduler.pop_poisoned() == [("run", 0)]


def test_replacements_that_die_of_a_batch_within_moments_are_counted_each(
    scheduler: LeaseScheduler,
) -> None:
    """They are started as fast as they die, so that their host would give up before."""
    scheduler.remove_worker("one")
    for pid in range(MAX_DEATHS):
        lose(scheduler, f"data-0/0/{pid}", at=0.1 * pid)
    scheduler.add_worker(f"data-0/0/{MAX_DEATHS}", 1.0)
    assert scheduler.pop_poisoned() == [("run", 0)]


def test_a_worker_that_comes_back_has_not_died(scheduler: LeaseScheduler) -> None:
    """A cable that is cut, or a switch that restarts, ends the connections of many at once."""
    scheduler.remove_worker("one")
    names = [f"data/{index}/1" for index in range(MAX_DEATHS + 1)]
    for worker in names:
        lose(scheduler, worker)
    for worker in names:
        scheduler.add_worker(worker, 1.0)
    scheduler.poll(WORKER_RECONNECT_TIMEOUT + 0.1)
    assert scheduler.pop_poisoned() == []


# A new dispatcher ----------------------------------------------------------------------------


@pytest.mark.parametrize("worker_first", [True, False], ids=["worker first", "receiver first"])
def test_a_new_scheduler_continues_from_receivers_and_workers(worker_first: bool) -> None:
    scheduler = LeaseScheduler(BUDGET)

    def greet() -> None:
        scheduler.add_worker("data/one", 0.0, holds={"run": [4, 6], "closed": [1]})

    if worker_first:
        greet()
    scheduler.open_run(
        read_of("run"),
        now=0.0,
        progress=ReadProgress(head=2, arrived={3: "data/two"}, largest=100),
    )
    if not worker_first:
        greet()
    scheduler.add_worker("data/three", 0.0, seconds=0.01)
    assert sorted(grants(scheduler, 0.0)["data/three"]) == [2, 5, 7, 8, 9]
    scheduler.record_consumed("run", 2, 0.0)  # nobody has said that it arrived: it is not counted
    scheduler.record_consumed("run", 3, 0.0)
    assert scheduler.total().prepared == {"data": 1}


def test_what_a_worker_has_done_with_before_its_run_is_open_takes_no_room() -> None:
    scheduler = LeaseScheduler(BUDGET)
    scheduler.add_worker("data/one", 0.0, holds={"run": [0, 1]})
    scheduler.record_heartbeat("data/one", 0.1, seconds=0.0, done=[("run", 0), ("run", 1)])
    scheduler.record_heartbeat("data/one", 1.1, seconds=0.0, done=[])
    progress = ReadProgress(head=1, arrived={1: "data/one"}, largest=100)
    scheduler.open_run(read_of("run"), now=1.2, progress=progress)
    assert grants(scheduler, 1.2) == {"data/one": [2, 3]}


@pytest.mark.parametrize("step", [-1, 10, MAX_WINDOW, 1 << 60])
@pytest.mark.parametrize("steps", [10, ENDLESS])
def test_a_step_that_cannot_be_changes_nothing(step: int, steps: int) -> None:
    scheduler = LeaseScheduler(BUDGET)
    scheduler.open_run(read_of("run", steps=steps), now=0.0)
    if 0 <= step < min(steps, MAX_WINDOW):
        return
    scheduler.add_worker("one", 0.0, holds={"run": [step]})
    scheduler.record_arrival("run", step, "one", 100, 0.0)
    scheduler.record_consumed("run", step, 0.0)
    assert grants(scheduler, 0.0) == {"one": [0, 1]}
    assert scheduler.total().prepared == {}


def test_a_run_that_follows_itself_is_read_like_any_other() -> None:
    scheduler = LeaseScheduler(BUDGET)
    scheduler.add_worker("one", 0.0)
    scheduler.open_run(read_of("run", after="run"), now=0.0)
    assert grants(scheduler, 0.0) == {"one": [0, 1]}


# Memory --------------------------------------------------------------------------------------


def test_the_window_follows_from_the_size_of_the_batches(scheduler: LeaseScheduler) -> None:
    for worker in ("two", "three", "four"):
        scheduler.add_worker(worker, 0.0)
    assert sum(len(steps) for steps in grants(scheduler, 0.0).values()) == INITIAL_WINDOW
    arrive(scheduler, "run", 0, size=200)
    assert grants(scheduler, 0.1) == {}  # until the rank takes something: it may never do
    scheduler.record_consumed("run", 0, 0.1)
    assert 1 + len(leased(scheduler, 0.1)) == BUDGET // 200  # step 1 is out already


def test_leases_that_batches_have_outgrown_are_taken_back() -> None:
    scheduler = LeaseScheduler(BUDGET)
    for name, after in (("run", None), ("next", "run")):
        scheduler.open_run(read_of(name, steps=30, after=after), now=0.0)
    scheduler.add_worker("one", 0.0, seconds=0.001)
    scheduler.add_worker("two", 0.0, seconds=0.001)
    grants(scheduler, 0.0)
    take(scheduler, "run", 0, size=1)
    held = grants(scheduler, 0.1)
    assert scheduler.pop_revoked() == []
    arrive(scheduler, "run", 1, size=BUDGET // 4)
    grown = scheduler.pop_revoked()
    for worker, steps in held.items():
        # The next of the run, in its window of four, and what the worker has begun stay with it.
        begun = scheduler._pool.get(worker)
        assert begun is not None
        lost = {(a.run, step) for a in grown if a.worker == worker for step in a.steps}
        assert len(lost) > 5
        assert begun.leases.keys().isdisjoint(lost)
        assert len([step for step in steps if ("run", step) in begun.leases]) >= LIKELY_STARTED - 1
    assert grants(scheduler, 0.2) == {}
    scheduler.record_consumed("run", 1, 0.3)
    for step in range(2, 30):  # what was taken back goes out again, by and by
        grants(scheduler, 0.3)
        (holder,) = scheduler._runs["run"].holders[step]
        arrive(scheduler, "run", step, size=BUDGET // 4, worker=holder)
        scheduler.record_consumed("run", step, 0.3)
    assert scheduler.total().received == {0: 30}
    assert scheduler.pop_revoked() == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_many_workers_all_have_work_in_hand(ranks: int) -> None:
    scheduler, workers, runs = (
        LeaseScheduler(1 << 30),
        400,
        [f"run {rank}" for rank in range(ranks)],
    )
    for index in range(workers):
        scheduler.add_worker(f"data/{index}", 0.0, seconds=5.0)
    for run in runs:
        scheduler.open_run(read_of(run, steps=10_000), now=0.0)
    held = grants(scheduler, 0.0)
    for run in runs:
        deliverer = next(worker for worker in held if held[worker])
        scheduler.record_arrival(run, 0, deliverer, 100, 0.1)
        scheduler.record_consumed(run, 0, 0.1)
    grants(scheduler, 0.1)
    assert scheduler.leases_by_host() == {"data": 2 * workers}


def test_runs_of_one_host_share_its_budget(scheduler: LeaseScheduler) -> None:
    scheduler.open_run(read_of("other", rank=1), now=0.0)
    scheduler.add_worker("two", 0.0, seconds=0.01)
    grants(scheduler, 0.0)
    for run in ("run", "other"):
        arrive(scheduler, run, 0, 1, size=100)
        scheduler.record_consumed(run, 0, 0.1)
    steps = sum(len(a.steps) for a in scheduler.assign(0.1) if a.run == "run")
    assert 1 + steps == BUDGET // 2 // 100
    scheduler.close_run("other")
    assert "other" not in scheduler.runs


def test_a_run_that_no_rank_reads_takes_no_share_of_the_budget(scheduler: LeaseScheduler) -> None:
    scheduler.open_run(read_of("validation"), now=0.0)
    scheduler.add_worker("two", 0.0, seconds=0.01)
    grants(scheduler, 0.0)
    take(scheduler, "run", 0, size=200)
    steps = {"run": 0, "validation": 0}
    for assignment in scheduler.assign(0.1):
        steps[assignment.run] += len(assignment.steps)
    assert 1 + steps["run"] == BUDGET // 200  # step 1 is out already
    assert steps["validation"] <= INITIAL_WINDOW


def test_the_next_epoch_gets_what_this_one_no_longer_needs(scheduler: LeaseScheduler) -> None:
    scheduler.add_worker("two", 0.0, seconds=0.001)
    scheduler.open_run(read_of("next", steps=99, after="run"), now=0.0)

    def now_leased() -> list[tuple[str, int]]:
        return [(a.run, step) for a in scheduler.assign(0.1) for step in a.steps]

    assert now_leased() == [("run", 0), ("run", 1)]
    take(scheduler, "run", 0, size=200)
    assert now_leased() == [("run", step) for step in range(2, 6)]
    take(scheduler, "run", *range(1, 6), size=200)
    assert now_leased() == [("run", 6), ("run", 7), ("run", 8), ("run", 9), ("next", 0)]
    take(scheduler, "run", 6, size=200)
    assert now_leased() == [("next", 1)]
    take(scheduler, "run", *range(7, 10), size=200)
    scheduler.close_run("run")
    assert now_leased() == [
        ("next", 2),
        ("next", 3),
        ("next", 4),
    ]  # it has the whole budget at once


def test_a_rank_that_leaves_its_batches_lying_is_found(scheduler: LeaseScheduler) -> None:
    grants(scheduler, 0.0)
    arrive(scheduler, "run", 0, 1, size=10)
    scheduler.record_consumed("run", 0, 1.0)
    assert scheduler.idle(30.0, 60.0) == []
    assert [run.rank for run in scheduler.idle(62.0, 60.0)] == [0]


def test_a_worker_on_a_train_host_serves_its_own_host_alone() -> None:
    scheduler = LeaseScheduler(BUDGET)
    for host in ("left", "right"):
        scheduler.open_run(read_of(f"of {host}", receiver=host), now=0.0)
    scheduler.add_worker("right/0", 0.0, receiver="right")
    assert [(a.worker, a.run) for a in scheduler.assign(0.0)] == [("right/0", "of right")]
    scheduler.add_worker("data/0", 0.0)
    assert [(a.worker, a.run) for a in scheduler.assign(0.0)] == [("data/0", "of left")]


def test_nothing_is_leased_for_a_receiver_that_is_paused() -> None:
    scheduler = LeaseScheduler(BUDGET)
    for receiver in ("one", "two"):
        scheduler.open_run(read_of(receiver, receiver=receiver, steps=50), 0.0)
    scheduler.pause("one")
    scheduler.add_worker("algo-1/0/1", 0.0)
    assert {each.run for each in scheduler.assign(0.0)} == {"two"}
    scheduler.poll(60.0)
    scheduler.record_seen("algo-1/0/1", 60.0)
    assert "one" not in {each.run for each in scheduler.assign(60.0)}
    scheduler.resume("one")
    scheduler.add_worker("algo-1/1/2", 60.0)
    assert "one" in {each.run for each in scheduler.assign(60.0)}


def test_a_receiver_that_falls_silent_is_named_once_and_given_up_in_time() -> None:
    monitor = HealthMonitor(("algo-1",), 60.0, now=0.0)
    assert not monitor.record_receiver("algo-2", 0.0, reports=False)  # sends no metrics yet
    assert not monitor.record_receiver("algo-3", 0.0, reports=True)
    assert [monitor.newly_silent(now) for now in (4.0, 6.0, 7.0)] == [[], ["algo-3"], []]
    assert monitor.record_receiver("algo-3", 8.0, reports=False)
    assert monitor.newly_silent(14.0) == ["algo-3"]
    assert monitor.lost_receivers(60.0) == []
    ((name, why),) = monitor.lost_receivers(69.0)
    assert (name, "silent for 60 s" in why) == ("algo-3", True)
    assert monitor.lost_receivers(70.0) == []
