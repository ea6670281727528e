"""What the trainers received, held against what the plan says: every sample, in order, once. Pure.

A *generation* is the ranks of one world, from their start until they end or are all started anew.
The committed trajectory is what each generation received before the place where the next began.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from schedule import Schedule

from launcher.data import seeding
from launcher.data.plan import Plan
from launcher.data.streams import StreamSpec

#: Epoch and position in its order; tuples compare as the trajectory runs.
Place = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """ids: of its samples. hash: of its random bytes. after: where the trajectory then is."""

    ids: list[int]
    hash: str
    epoch: int
    after: Place


@dataclass(frozen=True, kw_only=True)
class Received:
    """What one rank has noted: where it began, its batches, and whether it came to the end."""

    place: Place | None
    batches: tuple[tuple[list[int], str], ...]
    ended: bool

    @classmethod
    def read(cls, path: Path) -> Received:
        """A rank that was killed early has noted nothing; a line that it did not finish is none."""
        text = path.read_text() if path.exists() else ""
        notes = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]
        place = (notes[0]["epoch"], notes[0]["position"]) if notes else None
        batches = tuple((note["ids"], note["hash"]) for note in notes if "ids" in note)
        return cls(place=place, batches=batches, ended=any("ended" in note for note in notes))


Generation = Sequence[Received]


def objections(schedule: Schedule, generations: Sequence[Generation]) -> list[str]:
    """What is wrong; an empty list is the proof."""
    # Ranks of which one was killed before it began have saved nothing.
    begun = [ranks for ranks in generations if all(rank.place for rank in ranks)]
    nexts = [ranks[0].place for ranks in begun[1:]]
    totals: dict[int, Counter[int]] = {epoch: Counter() for epoch in range(schedule.epochs)}
    found = []
    for number, (ranks, until) in enumerate(zip(begun, [*nexts, None], strict=True)):
        found += [
            f"generation {number} of {len(begun)}, world {len(ranks)}: {words}"
            for words in _object_to_generation(schedule, ranks, until, totals)
        ]
    return found + list(_object_to_epochs(schedule, begun, totals))


def _object_to_generation(
    schedule: Schedule, ranks: Generation, until: Place | None, totals: dict[int, Counter[int]]
) -> Iterator[str]:
    """until: the place to which its work was kept; None for the last generation."""
    if len({rank.place for rank in ranks}) != 1:
        yield f"ranks began in {[rank.place for rank in ranks]}"
    kept = set()
    for number, rank in enumerate(ranks):
        expected = list(expected_batches(schedule, number, len(ranks), rank.place or (0, 0)))
        committed = [batch for batch in expected if until is None or batch.after <= until]
        kept.add(len(committed))
        for words in _object_to_rank(rank, expected, len(committed), is_last=until is None):
            yield f"rank {number} {words}"
        for batch, (ids, _) in zip(committed, rank.batches, strict=False):
            totals[batch.epoch].update(ids)
    if len(kept) != 1:
        yield f"the steps kept of its ranks are {kept}"


def _object_to_rank(
    rank: Received, expected: list[Batch], committed: int, *, is_last: bool
) -> Iterator[str]:
    if is_last and not rank.ended:
        yield "did not come to its end"
    if rank.ended and len(rank.batches) != len(expected):
        yield f"ended after {len(rank.batches)} of {len(expected)} batches"
    if len(rank.batches) < committed:
        yield f"received {len(rank.batches)} of {committed} committed batches"
    if order_hash(rank.batches) != order_hash(
        [(batch.ids, batch.hash) for batch in expected[: len(rank.batches)]]
    ):
        yield from _first_difference(rank, expected)


def _first_difference(rank: Received, expected: list[Batch]) -> Iterator[str]:
    for step, ((ids, digest), want) in enumerate(zip(rank.batches, expected, strict=False)):
        if ids != want.ids:
            yield f"received {ids} instead of {want.ids} in batch {step}"
            return
        if digest != want.hash:
            yield f"received other bytes of {ids} in batch {step}"
            return
    yield f"received {len(rank.batches)} batches, and there are {len(expected)}"


def order_hash(batches: Sequence[tuple[list[int], str]]) -> str:
    """One hash over the ids and bytes of a rank's batches, in their order."""
    return hashlib.sha256(json.dumps([list(batch) for batch in batches]).encode()).hexdigest()


def _object_to_epochs(
    schedule: Schedule, begun: Sequence[Generation], totals: dict[int, Counter[int]]
) -> Iterator[str]:
    """Each sample once, but for the pads and drops of the generation that ended the epoch."""
    for epoch, total in totals.items():
        once = Counter(range(schedule.length))
        doubled, missing = total - once, once - total
        last = [ranks for ranks in begun if (ranks[0].place or (0, 0)) < (epoch + 1, 0)][-1]
        first, position = last[0].place or (0, 0)
        plan = plan_of(schedule, epoch, 0, len(last), position if first == epoch else 0)
        if (doubled.total(), missing.total()) != (plan.pads, plan.drops):
            yield (
                f"epoch {epoch}: samples {sorted(doubled.elements())} were doubled ({plan.pads} "
                f"pads are declared), {sorted(missing.elements())} are missing ({plan.drops} drops)"
            )


# What the plan says ----------------------------------------------------------------------------


def expected_batches(schedule: Schedule, rank: int, world: int, place: Place) -> Iterator[Batch]:
    """The batches of a rank from a place to the end of the last epoch."""
    epoch, position = place
    while epoch < schedule.epochs:
        plan = plan_of(schedule, epoch, rank, world, position)
        for step in range(plan.steps):
            after = plan.place_after(step + 1)
            yield Batch(
                ids=plan.sample_ids(step),
                hash=_noise_hash(schedule, epoch, plan.positions(step)),
                epoch=epoch,
                after=(epoch + 1, 0) if after is None else (epoch, after.position),
            )
        epoch, position = epoch + 1, 0


def plan_of(schedule: Schedule, epoch: int, rank: int, world: int, position: int) -> Plan:
    spec = StreamSpec(
        name="pipeline:train_set",
        dataset="pipeline:train_set",
        batch_size=schedule.batch_size,
        shuffle=schedule.shuffle,
        seed=schedule.seed,
        drop_last=schedule.drop_last,
        uneven=schedule.uneven,
    )
    return Plan(
        spec=spec, length=schedule.length, epoch=epoch, rank=rank, world=world, position=position
    )


def _noise_hash(schedule: Schedule, epoch: int, positions: Sequence[int]) -> str:
    digest = hashlib.sha256()
    with seeding.states_kept():
        for position in positions:
            seeding.seed_everything(seeding.sample_seed(schedule.seed, epoch, position))
            digest.update(np.random.randint(0, 256, schedule.sample_bytes, np.uint8).tobytes())
    return digest.hexdigest()


def steps_from(schedule: Schedule, world: int, place: Place) -> int:
    """Steps of each rank from a place to the end of the last epoch."""
    epoch, position = place
    here = plan_of(schedule, epoch, 0, world, position).steps if epoch < schedule.epochs else 0
    whole = plan_of(schedule, 0, 0, world, 0).steps
    return here + whole * max(0, schedule.epochs - epoch - 1)
