"""Shard affinity: a shard is read where its iterator is, and elsewhere only when it must be."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from launcher.data.dispatcher import (
    FIRST_LATE_AFTER,
    LATE_AFTER,
    LATE_FACTOR,
    MOVABLE_LEASES,
    SILENCE,
    LeaseScheduler,
    ReadSpec,
)
from launcher.data.order import ENDLESS

LANES = ("a", "b", "c", "d")


class World:
    """A scheduler with lanes, and workers that are all alive until they are told otherwise."""

    def __init__(self, workers: Iterable[str], lanes: Iterable[str] = LANES) -> None:
        self.scheduler = LeaseScheduler(10**9)
        self.workers = list(workers)
        self.seconds = 0.0
        for worker in self.workers:
            self.scheduler.add_worker(worker, 0.0)
        for lane in lanes:
            self.scheduler.open_run(
                ReadSpec(name=lane, receiver="host", rank=0, steps=ENDLESS, is_shard_reader=True),
                now=0.0,
            )

    def grants(self, now: float) -> dict[str, dict[str, list[int]]]:
        """What is leased now: {worker: {lane: steps}}."""
        for worker in self.workers:
            self.scheduler.record_heartbeat(worker, now, seconds=self.seconds, done=[])
        self.scheduler.poll(now)
        found: dict[str, dict[str, list[int]]] = {}
        for one in self.scheduler.assign(now):
            found.setdefault(one.worker, {})[one.run] = list(one.steps)
        return found

    def deliver(self, leases: dict[str, dict[str, list[int]]], now: float) -> None:
        """All that was leased arrives and is taken."""
        for worker, lanes in leases.items():
            for lane, steps in lanes.items():
                for step in steps:
                    self.scheduler.record_arrival(lane, step, worker, 1, now)
                    self.scheduler.record_consumed(lane, step, now)

    def read(self, rounds: int) -> dict[str, set[str]]:
        """Let all lanes be read for some rounds; which lanes each worker has prepared."""
        seen: dict[str, set[str]] = {worker: set() for worker in self.workers}
        for number in range(rounds):
            leases = self.grants(number / 100)
            for worker, lanes in leases.items():
                seen[worker] |= lanes.keys()
            self.deliver(leases, number / 100 + 0.005)
        return seen


def owner_of(lane: str, seen: dict[str, set[str]]) -> str:
    (owner,) = [worker for worker, lanes in seen.items() if lane in lanes]
    return owner


@pytest.mark.parametrize("workers", [("one",), ("one", "two"), ("one", "two", "three", "four")])
def test_each_lane_has_one_worker_and_all_workers_have_their_share(
    workers: tuple[str, ...],
) -> None:
    seen = World(workers).read(50)
    assert sorted(lane for lanes in seen.values() for lane in lanes) == sorted(LANES)
    assert {len(lanes) for lanes in seen.values()} == {len(LANES) // len(workers)}


def test_the_lanes_of_a_dead_worker_go_to_others_from_what_was_lost_on() -> None:
    world = World(("one", "two"))
    seen = world.read(20)
    held = world.grants(0.2)
    world.workers.remove("one")
    world.scheduler.remove_worker("one", lost_at=0.1)
    taken_over: dict[str, list[int]] = {}
    for round_ in range(20):  # as the other has room
        leases = world.grants(0.2)
        for lane, steps in leases.get("two", {}).items():
            taken_over.setdefault(lane, []).extend(steps)
        world.deliver(leases if round_ else {"two": {**held["two"], **leases.get("two", {})}}, 0.2)
    for lane in seen["one"]:
        steps = taken_over[lane]
        assert steps == list(range(steps[0], steps[0] + len(steps)))
        assert steps[0] <= min(held["one"].get(lane, steps))


@pytest.mark.parametrize("how", ["silent", "leaving"])
def test_the_shard_readers_of_a_failed_worker_move_to_others(how: str) -> None:
    world = World(("one", "two"))
    world.read(20)
    world.workers.remove("one")
    if how == "leaving":
        world.scheduler.drain_worker("one", {})
    found: set[str] = set()
    for _ in range(20):
        leases = world.grants(0.2 + SILENCE + 0.1)
        assert "one" not in leases
        found |= leases.get("two", {}).keys()
        world.deliver(leases, 0.2 + SILENCE + 0.2)
    assert found == set(LANES)


def test_a_late_shard_reader_is_repeated_by_one_other_and_the_first_continues() -> None:
    world = World(("one", "two", "three"), lanes=("a",))
    ((slow, leases),) = world.grants(0.0).items()
    world.deliver({slow: leases}, 0.1)  # it takes a tenth of a second
    assert world.grants(0.1) == {slow: {"a": [1, 2]}}
    patience = LATE_FACTOR * 0.1 + 0.1  # and so long to come to step 1
    assert world.grants(0.1 + patience - 0.05) == {}
    late = world.grants(0.1 + patience + 0.01)
    ((helper, again),) = late.items()
    assert helper != slow
    assert again["a"][0] == 1
    more = world.grants(0.1 + patience + 0.2)
    assert more in ({}, {helper: {"a": [2]}})  # nobody else begins
    world.scheduler.record_arrival("a", 1, slow, 1, 1.0)  # it was not lost after all
    world.scheduler.record_arrival("a", 2, slow, 1, 1.0)
    world.scheduler.record_consumed("a", 1, 1.0)
    world.scheduler.record_consumed("a", 2, 1.0)
    assert list(world.grants(1.0)) == [slow]


def test_who_reads_a_shard_again_has_the_time_for_it() -> None:
    world = World(("one",), lanes=("a",))
    now = 0.0
    for _ in range(100):
        leases = world.grants(now)
        now += 0.1
        world.deliver(leases, now)
    world.scheduler.add_worker("two", now)
    world.workers.append("two")
    step = max(world.grants(now)["one"]["a"])
    assert step > MOVABLE_LEASES
    assert world.grants(now + max(LATE_AFTER, LATE_FACTOR * 0.1) + 0.1) == {}
    assert "two" in world.grants(now + 10 * step * 0.1)


def test_a_worker_that_comes_early_gets_its_share_and_later_none() -> None:
    world = World(("one",))
    assert len(world.read(4)["one"]) == len(LANES)
    world.scheduler.add_worker("two", 0.0)
    world.workers.append("two")
    assert [len(lanes) for lanes in world.read(50).values()] == [2, 2]
    world.scheduler.add_worker("three", 1.0)
    world.workers.append("three")
    assert world.read(20)["three"] == set()


def test_the_first_batch_of_a_lane_has_time(  # the dataset is made
) -> None:
    world = World(("one", "two"), lanes=("a",))
    ((first, _),) = world.grants(0.0).items()
    assert world.grants(FIRST_LATE_AFTER - 0.1) == {}
    assert first not in world.grants(FIRST_LATE_AFTER + 0.1)


def test_a_rank_that_waits_for_one_lane_is_not_idle() -> None:
    world = World(("one", "two"), lanes=("a", "b"))
    leases = world.grants(0.0)
    world.deliver(leases, 0.0)
    world.grants(0.1)
    world.scheduler.record_arrival("a", 1, "one", 1, 0.2)
    assert world.scheduler.idle(100.0, 10.0) == []
    world.scheduler.record_arrival("b", 1, "two", 1, 0.2)
    assert {run.name for run in world.scheduler.idle(100.0, 10.0)} == {"a", "b"}


def test_a_reconnected_worker_keeps_all_its_shard_readers() -> None:
    world = World(("one", "two"), lanes="abcdefgh")
    seen = world.read(20)
    held = world.grants(0.2)
    waiting = seen["one"] - held["one"].keys()
    assert waiting  # more lanes than it has room for
    world.scheduler.add_worker("one", 0.2, holds=held["one"])
    leases = {"two": held["two"]}
    for _ in range(5):  # the other has room meanwhile
        world.deliver(leases, 0.3)
        leases = world.grants(0.3)
    world.deliver({"one": held["one"]}, 0.3)
    found: set[str] = set()
    for _ in range(20):
        for lane, steps in world.grants(0.3).get("one", {}).items():
            found.add(lane)
            for step in steps:
                world.scheduler.record_arrival(
                    lane, step, "one", 1, 0.3
                )  # its rank waits for the others
    assert waiting <= found
