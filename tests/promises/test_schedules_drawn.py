"""What seeds draw: always the same, and enough of each way to read."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

from schedule import HARDER, Reading, Samples, Schedule, draw
from test_failure_schedules import SEEDS

from launcher.data.order import StreamSpec

DRAWN = [draw(seed) for seed in SEEDS if seed < HARDER]
HARDER_ONES = [draw(seed) for seed in SEEDS if seed >= HARDER]
#: Of each way to read but the plain one; samplers and batch_samplers count together.
LEAST_READ = 15


def schedules_differ(one: Schedule, other: Schedule) -> bool:
    return replace(one, seed=0) != replace(other, seed=0)


def test_a_seed_is_one_schedule() -> None:
    assert all(draw(seed) == draw(seed) for seed in range(20))
    assert all(schedules_differ(draw(seed), draw(seed + 1)) for seed in range(20))


def test_most_schedules_read_plainly_and_enough_of_them_in_each_other_way() -> None:
    count = Counter(schedule.reading for schedule in DRAWN)
    count[Reading.SAMPLER] += count.pop(Reading.BATCH_SAMPLER)
    assert count.pop(Reading.PLAIN) > len(DRAWN) / 2
    assert len(count) == 5
    assert min(count.values()) >= LEAST_READ


def test_half_of_the_harder_ones_are_iterable_and_half_are_of_types() -> None:
    count = Counter((schedule.reading, schedule.samples) for schedule in HARDER_ONES)
    ways = [(Reading.PLAIN, Reading.SHARDS), (Samples.UNSEEDED, Samples.TYPED)]
    assert count == dict.fromkeys(itertools.product(*ways), len(HARDER_ONES) / 4)


def test_all_that_is_drawn_can_be_read() -> None:
    for schedule in [*DRAWN, *HARDER_ONES]:
        StreamSpec(name="drawn", **schedule.stream)
        is_local = schedule.reading is Reading.LOCAL_WORKERS
        assert is_local == (schedule.local_workers > 0)
        is_in_shards = schedule.reading is Reading.SHARDS
        assert is_in_shards == (schedule.shards > 1)
