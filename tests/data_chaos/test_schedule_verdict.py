"""The verdict on failure schedules notices every batch that is lost, doubled, moved or altered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from schedule import Schedule, draw
from verdict import Place, Received, expected_batches, objections, steps_from

SCHEDULE = replace(
    draw(0), length=50, epochs=2, batch_size=4, uneven="pad", drop_last=False, sample_bytes=8
)
#: After three steps of two ranks, and then of three ranks into the next epoch.
SECOND, THIRD = (0, 24), (1, 12)


def ranks(world: int, place: Place, steps: int | None = None) -> list[Received]:
    """What the ranks of a world receive from a place on; to the end, or so many steps."""
    found = []
    for rank in range(world):
        batches = [(b.ids, b.hash) for b in expected_batches(SCHEDULE, rank, world, place)]
        found.append(Received(place=place, batches=tuple(batches[:steps]), ended=steps is None))
    return found


def life() -> list[list[Received]]:
    """Three generations, the first two of which received more than was kept."""
    return [ranks(2, (0, 0), 5), ranks(3, SECOND, 5), ranks(1, THIRD)]


def test_what_the_plan_says_is_not_objected_to() -> None:
    assert objections(SCHEDULE, life()) == []
    assert steps_from(SCHEDULE, 1, THIRD) == len(life()[2][0].batches) == 10


def test_ranks_that_were_killed_before_they_began_change_nothing() -> None:
    early = [Received(place=None, batches=(), ended=False), *ranks(2, SECOND, 1)]
    assert objections(SCHEDULE, [life()[0], early, *life()[1:]]) == []


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
    return replace(received, place=(received.place[0], received.place[1] + 4))


@pytest.mark.parametrize("change", [lose, double, swap, alter, stop_early, begin_elsewhere])
@pytest.mark.parametrize("generation", range(3))
def test_a_change_in_any_generation_is_objected_to(
    change: Callable[[Received], Received], generation: int
) -> None:
    changed = life()
    changed[generation][-1] = change(changed[generation][-1])
    assert objections(SCHEDULE, changed)


def test_a_rank_that_did_not_come_to_its_end_is_objected_to() -> None:
    changed = life()
    changed[2][0] = replace(changed[2][0], ended=False)
    assert objections(SCHEDULE, changed) == [
        "generation 2 of 3, world 1: rank 0 did not come to its end"
    ]


def test_samples_that_are_lost_between_generations_are_named() -> None:
    (words,) = objections(SCHEDULE, [ranks(2, (0, 0), 5), ranks(1, (0, 28))])
    lost = next(ids for rank in ranks(2, SECOND, 1) for ids, _ in rank.batches)
    assert f"{sorted(lost)} are missing (0 drops)" in words


def schedules_differ(one: Schedule, other: Schedule) -> bool:
    return replace(one, seed=0) != replace(other, seed=0)


def test_a_seed_is_one_schedule() -> None:
    assert all(draw(seed) == draw(seed) for seed in range(20))
    assert all(schedules_differ(draw(seed), draw(seed + 1)) for seed in range(20))
