"""Which samples of an iterable dataset are read in which step, by the words of docs/data-loader.md.

Written anew, and not by the product's plan of shards, so that the two are held against each other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, islice, zip_longest

import noisy_samples
from schedule import Samples, Schedule

from launcher.data.repeatable import preserve_random_states, seeding


@dataclass(frozen=True, kw_only=True)
class Portion:
    """Some samples of one shard. is_pad: they come again, since the shards of a rank had ended."""

    ids: list[int]
    noise: bytes
    is_pad: bool


def portions_of(schedule: Schedule, epoch: int, rank: int, world: int) -> list[Portion]:
    """The steps of a rank in a whole epoch: as many as the longest rank has without pads."""
    laps = [next(_laps(schedule, epoch, each, world)) for each in range(world)]
    steps = max(map(len, laps))
    return list(islice(chain.from_iterable(_laps(schedule, epoch, rank, world)), steps))


def left_over(schedule: Schedule) -> list[int]:
    """The samples of incomplete batches that are left out."""
    shards = (range(shard, schedule.length, schedule.shards) for shard in range(schedule.shards))
    rests = ((ids, len(ids) % schedule.batch_size) for ids in shards)
    return [index for ids, rest in rests for index in ids[len(ids) - rest :] if schedule.drop_last]


def _laps(schedule: Schedule, epoch: int, rank: int, world: int) -> Iterator[list[Portion]]:
    """One batch of each of a rank's shards in turn, until all have ended; and so on."""
    for lap in count():
        shards = range(rank, schedule.shards, world)
        turns = zip_longest(*(_shard(schedule, epoch, shard, lap) for shard in shards))
        yield [portion for turn in turns for portion in turn if portion]


def noise_of(schedule: Schedule) -> bytes:
    """The noise of the next sample, by the random states of this process."""
    unseeded = schedule.samples is Samples.UNSEEDED
    draw = noisy_samples.unseeded_noise if unseeded else noisy_samples.noise
    return draw(schedule.sample_bytes).tobytes()


@functools.lru_cache(maxsize=32)  # each rank and generation asks again
def _shard(schedule: Schedule, epoch: int, shard: int, lap: int) -> list[Portion]:
    ids, size = range(shard, schedule.length, schedule.shards), schedule.batch_size
    number = shard + lap * schedule.shards
    with preserve_random_states():
        seeding.seed_everything(seeding.sample_seed(schedule.seed, epoch, number, b"shard"))
        noise = [noise_of(schedule) for _ in ids]
    ends = range(size, len(ids) + (1 if schedule.drop_last else size), size)
    return [
        Portion(
            ids=list(ids[end - size : end]),
            noise=b"".join(noise[end - size : end]),
            is_pad=lap > 0,
        )
        for end in ends
    ]
