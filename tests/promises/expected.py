"""What the plan says that a rank reads: its epochs, their batches, and what is counted. Pure."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import noisy_samples
from portions import left_over, noise_of, portions_of
from schedule import Reading, Schedule

from launcher.data.order import BatchPlan, ResumePoint, StreamSpec, make_plan
from launcher.data.repeatable import preserve_random_states, seeding


@dataclass(frozen=True, kw_only=True)
class Batch:
    """ids: of its samples. hash: of their noise. pads: those ids that are declared repetitions.

    skipped: how many samples were left out.
    """

    ids: list[int]
    hash: str
    pads: list[int]
    skipped: int = 0


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One epoch of one rank, from a place on.

    dropped: the ids that no rank gets. pads, drops: of all ranks, as the loader's line counts them
    (in shards, of this rank, and none is known).
    """

    number: int
    batches: list[Batch]
    dropped: list[int]
    pads: int
    drops: int

    @property
    def counted(self) -> dict[str, int]:
        """As the loader's line says it."""
        return {
            "epoch": self.number,
            "steps": len(self.batches),
            "samples": sum(len(batch.ids) for batch in self.batches),
            "pads": self.pads,
            "drops": self.drops,
            "skipped": sum(batch.skipped for batch in self.batches),
        }


def epochs_of(schedule: Schedule, rank: int, world: int, place: ResumePoint) -> Iterator[Epoch]:
    """What a rank reads from a place to the end of the last epoch."""
    read = _in_shards if schedule.reading is Reading.SHARDS else _by_index
    for number in range(place.epoch, schedule.epochs):
        here = place if number == place.epoch else ResumePoint(epoch=number)
        yield read(schedule, rank, world, here)


def steps_from(schedule: Schedule, rank: int, world: int, place: ResumePoint) -> int:
    """Steps of a rank from a place to the end of the last epoch."""
    return sum(len(epoch.batches) for epoch in epochs_of(schedule, rank, world, place))


def wanted(schedule: Schedule, epoch: int) -> Counter[int]:
    """How often each sample should come in an epoch, but for pads and drops."""
    length, seed = schedule.length, schedule.seed
    if schedule.reading is Reading.SAMPLER:
        return Counter(noisy_samples.draw_ids(length, epoch, seed))
    if schedule.reading is Reading.BATCH_SAMPLER:
        return Counter(chain(*noisy_samples.draw_batches(length, epoch, seed)))
    return Counter(_sound(schedule, range(length)))


def _sound(schedule: Schedule, ids: Sequence[int]) -> list[int]:
    """The ids of samples that do not raise."""
    if schedule.reading is not Reading.SKIPPING:
        return list(ids)
    return [index for index in ids if not noisy_samples.raises(index, schedule.length)]


# By index --------------------------------------------------------------------------------------


def _by_index(schedule: Schedule, rank: int, world: int, place: ResumePoint) -> Epoch:
    spec = StreamSpec(name="by index", **schedule.stream)
    plan = make_plan(spec, schedule.length, place, rank=rank, world=world)
    return Epoch(
        number=plan.epoch,
        batches=[_batch(schedule, plan, step) for step in range(plan.steps)],
        dropped=_sound(schedule, _ids(plan, plan.dropped)),
        pads=len(_ids(plan, plan.padded)),
        drops=len(_ids(plan, plan.dropped)),
    )


def _batch(schedule: Schedule, plan: BatchPlan, step: int) -> Batch:
    samples = plan.samples(step)
    ids = _sound(schedule, [index for _, index in samples])
    pads = _ids(plan, [at for at in plan.positions(step) if at >= plan.length])
    return Batch(
        ids=ids,
        hash=_noise_hash(schedule, plan.epoch, [at for at, index in samples if index in ids]),
        pads=_sound(schedule, pads),
        skipped=len(samples) - len(ids),
    )


def _ids(plan: BatchPlan, positions: Sequence[int]) -> list[int]:
    return [index for _, index in plan.samples_at(positions)]


def _noise_hash(schedule: Schedule, epoch: int, positions: Sequence[int]) -> str:
    noise = [_noise(schedule, epoch, position) for position in positions]
    return hashlib.sha256(b"".join(noise)).hexdigest()


@functools.lru_cache(maxsize=1024)  # each generation asks again
def _noise(schedule: Schedule, epoch: int, position: int) -> bytes:
    with preserve_random_states():
        seeding.seed_everything(seeding.sample_seed(schedule.seed, epoch, position))
        return noise_of(schedule)


# In shards -------------------------------------------------------------------------------------


def _in_shards(schedule: Schedule, rank: int, world: int, place: ResumePoint) -> Epoch:
    portions = portions_of(schedule, place.epoch, rank, world)[place.taken :]
    batches = [
        Batch(
            ids=portion.ids,
            hash=hashlib.sha256(portion.noise).hexdigest(),
            pads=portion.ids if portion.is_pad else [],
        )
        for portion in portions
    ]
    return Epoch(
        number=place.epoch,
        batches=batches,
        dropped=left_over(schedule),
        pads=sum(len(batch.pads) for batch in batches),
        drops=0,
    )
