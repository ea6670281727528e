"""The verdict on failure schedules notices every batch that is lost, doubled, moved or altered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from expected import steps_from
from lives import START, Life, life, life_in_one_world, ranks, small
from received import Received
from schedule import Reading
from verdict import objections

from launcher.data.order import ResumePoint

PLAIN = small(Reading.PLAIN)


def test_fields_of_the_training_plan_are_accepted() -> None:
    assert objections(PLAIN, life(PLAIN)) == []
    (last,) = life(PLAIN)[2]
    assert steps_from(PLAIN, 0, 1, ResumePoint(epoch=1, position=12)) == len(last.batches) == 10


@pytest.mark.parametrize("reading", Reading)
def test_no_reading_is_objected_to(reading: Reading) -> None:
    schedule = small(reading)
    assert objections(schedule, life_in_one_world(schedule)) == []


def test_ranks_that_were_killed_before_they_began_change_nothing() -> None:
    first, second, third = life(PLAIN)
    early = replace(second[0], place=None, since=None, batches=())
    last = [replace(rank, since=(2, 4)) for rank in third]
    assert objections(PLAIN, [first, [early, *second[1:]], second, last]) == []


def lose(received: Received) -> Received:
    return replace(received, batches=received.batches[:1] + received.batches[2:])


def double(received: Received) -> Received:
    return replace(received, batches=received.batches[:2] + received.batches[1:])


def swap(received: Received) -> Received:
    first, second, *others = received.batches
    return replace(received, batches=(second, first, *others))


def alter(received: Received) -> Received:
    (ids, _), *others = received.batches
    return replace(received, batches=((ids, "0" * 64), *others))


def stop_early(received: Received) -> Received:
    return replace(received, batches=received.batches[:2])


def begin_elsewhere(received: Received) -> Received:
    assert received.place is not None
    place = replace(received.place, position=received.place.position + 4)
    return replace(received, place=place)


def go_on_elsewhere(received: Received) -> Received:
    return replace(received, since=(0, 2))


def miscount(received: Received) -> Received:
    *epochs, last = received.epochs
    return replace(received, epochs=(*epochs, {**last, "skipped": last["skipped"] + 1}))


Change = Callable[[Received], Received]


def changed_in(generations: Life, number: int, change: Change) -> Life:
    """One rank of one generation is changed."""
    *others, last = generations[number]
    return [*generations[:number], [*others, change(last)], *generations[number + 1 :]]


@pytest.mark.parametrize("change", [lose, double, swap, alter, stop_early, begin_elsewhere])
@pytest.mark.parametrize("generation", range(3))
def test_a_change_in_any_generation_is_objected_to(change: Change, generation: int) -> None:
    assert objections(PLAIN, changed_in(life(PLAIN), generation, change))


@pytest.mark.parametrize("change", [lose, double, swap, alter, stop_early, go_on_elsewhere])
@pytest.mark.parametrize("reading", [reading for reading in Reading if reading != "any order"])
def test_a_change_in_any_reading_is_objected_to(change: Change, reading: Reading) -> None:
    schedule = small(reading)
    assert objections(schedule, changed_in(life_in_one_world(schedule), 1, change))


@pytest.mark.parametrize("change", [lose, double, alter, stop_early, go_on_elsewhere])
def test_in_any_order_a_change_is_objected_to(change: Change) -> None:
    schedule = small(Reading.ANY_ORDER)
    assert objections(schedule, changed_in(life_in_one_world(schedule), 1, change))


def reverse_epochs(received: Received) -> Received:
    """Each epoch by itself: three of its seven steps were taken before."""
    first, second = received.batches[:4], received.batches[4:]
    return replace(received, batches=(*reversed(first), *reversed(second)))


def test_in_any_order_batches_change_places_within_an_epoch_alone() -> None:
    schedule = small(Reading.ANY_ORDER)
    generations = life_in_one_world(schedule)
    assert objections(schedule, changed_in(generations, 1, reverse_epochs)) == []

    def reverse(received: Received) -> Received:
        return replace(received, batches=received.batches[::-1])

    assert objections(schedule, changed_in(generations, 1, reverse))


@pytest.mark.parametrize("reading", Reading)
def test_what_a_loader_has_miscounted_is_objected_to(reading: Reading) -> None:
    schedule = small(reading)
    (words,) = objections(schedule, changed_in(life_in_one_world(schedule), 1, miscount))
    assert "counted {'epoch': 1, " in words


def test_a_rank_that_did_not_come_to_its_end_is_objected_to() -> None:
    changed = life(PLAIN)
    changed[2][0] = replace(changed[2][0], ended=False)
    assert objections(PLAIN, changed) == [
        "generation 2 of 3, world 1: rank 0 did not come to its end"
    ]


def test_samples_that_are_lost_between_generations_are_named() -> None:
    place = ResumePoint(epoch=0, position=28)
    first, second = ranks(PLAIN, 2, START, steps=5), ranks(PLAIN, 1, place, since=(0, 3))
    (words,) = objections(PLAIN, [first, second])
    lost = first[0].batches[3][0]
    assert f"{sorted(lost)} are missing ([] are dropped)" in words
