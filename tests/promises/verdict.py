"""What the trainers received, held against what the plan says: every sample, in order, once. Pure.

A *generation* is the ranks of one world, from their start until they end or are all started anew.
The committed trajectory is what each generation received before the place where the next began.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from expected import Batch, Epoch, epochs_of, wanted
from received import Received
from schedule import Reading, Schedule

Generation = Sequence[Received]
#: Of each epoch, how often each id was received, and how often as a declared pad.
Totals = dict[int, tuple[Counter[int], Counter[int]]]


def objections(schedule: Schedule, generations: Sequence[Generation]) -> list[str]:
    """What is wrong; an empty list is the proof."""
    # Ranks of which one was killed before it began have saved nothing.
    begun = [
        (number, ranks)
        for number, ranks in enumerate(generations)
        if all(rank.place for rank in ranks)
    ]
    totals: Totals = {epoch: (Counter(), Counter()) for epoch in range(schedule.epochs)}
    found = []
    for (number, ranks), later in zip(begun, [*begun[1:], None], strict=True):
        kept = _kept(number, later[1]) if later else None
        found += [
            f"generation {number} of {len(generations)}, world {len(ranks)}: {words}"
            for words in _object_to_generation(schedule, ranks, kept, totals)
        ]
    return found + list(_object_to_epochs(schedule, [ranks for _, ranks in begun], totals))


def _kept(number: int, later: Generation) -> int:
    """Batches of each rank of a generation that the next one goes on after."""
    generation, batches = later[0].since or (-1, 0)
    return batches if generation == number else 0


def _object_to_generation(
    schedule: Schedule, ranks: Generation, kept: int | None, totals: Totals
) -> Iterator[str]:
    """kept: batches of each rank; None for all, of the last generation."""
    # Steps that were done in any order are of a rank alone.
    if len({(rank.since, rank.place and replace(rank.place, done=())) for rank in ranks}) != 1:
        yield f"ranks began in {[(rank.place, rank.since) for rank in ranks]}"
    for number, rank in enumerate(ranks):
        assert rank.place is not None  # it has begun
        epochs = list(epochs_of(schedule, number, len(ranks), rank.place))
        for words in _object_to_rank(schedule, rank, epochs, kept):
            yield f"rank {number} {words}"
        committed = _as_expected(schedule, rank, epochs)[:kept]
        for (ids, _), batch, epoch in zip(rank.batches, committed, _numbers(epochs), strict=False):
            totals[epoch][0].update(ids)
            totals[epoch][1].update(batch.pads)


def _object_to_rank(
    schedule: Schedule, rank: Received, epochs: list[Epoch], kept: int | None
) -> Iterator[str]:
    steps = len(_numbers(epochs))
    if kept is None and not rank.ended:
        yield "did not come to its end"
    if rank.ended and len(rank.batches) != steps:
        yield f"ended after {len(rank.batches)} of {steps} batches"
    if len(rank.batches) < (kept or 0):
        yield f"received {len(rank.batches)} of {kept} committed batches"
    found = _as_expected(schedule, rank, epochs)
    if order_hash(rank.batches) != order_hash([(batch.ids, batch.hash) for batch in found]):
        yield from _first_difference(rank, found)
    yield from _object_to_counts(rank, epochs)


def _numbers(epochs: list[Epoch]) -> list[int]:
    """Which epoch each step is in."""
    return [epoch.number for epoch in epochs for _ in epoch.batches]


def _as_expected(schedule: Schedule, rank: Received, epochs: list[Epoch]) -> list[Batch]:
    """The batches that should be where the rank received some.

    In any order, those of an epoch are put as they came; where one came that should not, another.
    """
    found: list[Batch] = []
    for epoch in epochs:
        batches = list(epoch.batches)
        if schedule.reading is Reading.ANY_ORDER:
            came = [json.dumps(batch) for batch in rank.batches[len(found) :][: len(batches)]]
            batches = _in_order_of(came, batches)
        found += batches
    return found[: len(rank.batches)]


def _in_order_of(came: list[str], batches: list[Batch]) -> list[Batch]:
    left = {json.dumps([batch.ids, batch.hash]): batch for batch in batches}
    found = [left.pop(words, None) for words in came]
    others = iter(left.values())
    return [batch or next(others) for batch in found]


def _first_difference(rank: Received, found: list[Batch]) -> Iterator[str]:
    for step, ((ids, digest), want) in enumerate(zip(rank.batches, found, strict=False)):
        if ids != want.ids:
            yield f"received {ids} instead of {want.ids} in batch {step}"
            return
        if digest != want.hash:
            yield f"received other bytes of {ids} in batch {step}"
            return
    yield f"received {len(rank.batches)} batches, and there are {len(found)}"


def order_hash(batches: Sequence[tuple[list[int], str]]) -> str:
    """One hash over the ids and bytes of a rank's batches, in their order."""
    return hashlib.sha256(json.dumps([list(batch) for batch in batches]).encode()).hexdigest()


def _object_to_counts(rank: Received, epochs: list[Epoch]) -> Iterator[str]:
    """What the loader says in the log of the epochs that it has read to the end."""
    if rank.ended and len(rank.epochs) != len(epochs):
        yield f"said what it counted of {len(rank.epochs)} of {len(epochs)} epochs"
    for said, epoch in zip(rank.epochs, epochs, strict=False):
        if said != epoch.counted:
            yield f"counted {said} instead of {epoch.counted}"


def _object_to_epochs(
    schedule: Schedule, begun: Sequence[Generation], totals: Totals
) -> Iterator[str]:
    """Each sample once, but for the pads, and the drops of the generation that ended the epoch."""
    for number, (total, pads) in totals.items():
        ranks = [r for r in begun if r[0].place and r[0].place.epoch <= number][-1]
        assert ranks[0].place is not None
        epochs = epochs_of(schedule, 0, len(ranks), ranks[0].place)
        dropped = Counter(next(e.dropped for e in epochs if e.number == number))
        once = wanted(schedule, number)
        doubled, missing = total - once, once - total
        if total != once + pads - dropped:
            yield (
                f"epoch {number}: samples {sorted(doubled.elements())} were doubled "
                f"({sorted(pads.elements())} are declared), {sorted(missing.elements())} are "
                f"missing ({sorted(dropped.elements())} are dropped)"
            )
