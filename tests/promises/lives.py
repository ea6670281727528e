"""Lives of small jobs in which all goes well, for tests of the verdict on them."""

from __future__ import annotations

from dataclasses import replace

from expected import Epoch, epochs_of
from received import Received
from schedule import Reading, Schedule, draw, reading_of

from launcher.data.order import ResumePoint

START = ResumePoint(epoch=0)
Life = list[list[Received]]


def small(reading: Reading) -> Schedule:
    """A schedule that reads so, and is quick to judge."""
    drawn = draw(next(seed for seed in range(100) if reading_of(seed) is reading))
    size = 1 if reading is Reading.BATCH_SAMPLER else 4
    return replace(
        drawn, length=50, epochs=2, batch_size=size, uneven="pad", drop_last=False, sample_bytes=8
    )


def ranks(
    schedule: Schedule,
    world: int,
    place: ResumePoint,
    *,
    since: tuple[int, int] | None = None,
    steps: int | None = None,
) -> list[Received]:
    """What the ranks of a world receive from a place on; to the end, or so many steps."""
    return [
        _rank(list(epochs_of(schedule, rank, world, place)), place, since, steps)
        for rank in range(world)
    ]


def _rank(
    epochs: list[Epoch], place: ResumePoint, since: tuple[int, int] | None, steps: int | None
) -> Received:
    batches = [(batch.ids, batch.hash) for epoch in epochs for batch in epoch.batches]
    return Received(
        place=place,
        since=since,
        batches=tuple(batches[:steps]),
        ended=steps is None,
        epochs=tuple(epoch.counted for epoch in epochs) if steps is None else (),
    )


def life(schedule: Schedule) -> Life:
    """Three generations of changing worlds, the first two of which received more than was kept."""
    second, third = ResumePoint(epoch=0, position=24), ResumePoint(epoch=1, position=12)
    return [
        ranks(schedule, 2, START, steps=5),
        ranks(schedule, 3, second, since=(0, 3), steps=5),
        ranks(schedule, 1, third, since=(1, 4)),
    ]


def life_in_one_world(schedule: Schedule) -> Life:
    """Two generations, the first of which received more than was kept."""
    places = {
        Reading.SHARDS: ResumePoint(epoch=0, taken=3),
        Reading.ANY_ORDER: ResumePoint(epoch=0, done=((0, 3),)),
    }
    in_order = ResumePoint(epoch=0, position=3 * 2 * schedule.batch_size)
    return [
        ranks(schedule, 2, START, steps=5),
        ranks(schedule, 2, places.get(schedule.reading, in_order), since=(0, 3)),
    ]
