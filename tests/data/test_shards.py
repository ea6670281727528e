"""Which step is which shard's batch: every batch once, in turn, and from any step on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.data.order import (
    ShardBatch,
    ShardEnd,
    ShardPlan,
    ShardReaderPlan,
    StreamSpec,
    read_epoch,
)
from launcher.errors import DataError

#: Of the stream, beside those of the plan.
OPTIONS = {"drop_last", "shuffle", "sampler", "in_order", "on_error", "allow_empty"}
Name = tuple[int, int, int]  # (lap, shard, batch)


def plan(
    shards: int = 1, steps: int | None = None, uneven: str = "pad", **fields: object
) -> ShardPlan:
    spec = StreamSpec(
        name="s",
        dataset="d:d",
        batch_size=4,
        **{name: fields.pop(name) for name in OPTIONS & fields.keys()},  # type: ignore[arg-type]
        uneven=uneven,  # type: ignore[arg-type]
        shards=shards,
        steps=steps,
    )
    return ShardPlan(spec=spec, epoch=0, **fields)  # type: ignore[arg-type]


class Lane:
    """Names batches instead of reading them."""

    def __init__(self, this: ShardReaderPlan, length: int) -> None:
        self.plan, self.length = this, length
        self.index = this.first
        self.closed = False

    def __iter__(self) -> Lane:
        return self

    def __next__(self) -> ShardBatch | ShardEnd:
        assert not self.closed
        index, self.index = self.index, self.index + 1
        if index >= self.length:
            return ShardEnd(batches=self.length)
        return ShardBatch(samples=1, parts=((self.plan.pass_index, self.plan.shard, index), []))

    def close(self) -> None:
        self.closed = True


def lanes(lengths: Sequence[int]) -> Callable[[ShardReaderPlan], Lane]:
    """Shard i has lengths[i] batches."""
    return lambda this: Lane(this, lengths[this.shard])


def steps(this: ShardPlan, lengths: Sequence[int]) -> list[Name]:
    """The batches of a rank."""
    found = list(read_epoch(this, lanes(lengths)))
    return [portion.parts[0] for portion in found if portion.parts is not None]


def in_rotation(shards: Sequence[int], lengths: Sequence[int]) -> list[Name]:
    """What it should be, said differently: hands go round, and who has no card left is out."""
    hands = {shard: list(range(lengths[shard])) for shard in shards}
    found = []
    while any(hands.values()):
        found += [(0, shard, hand.pop(0)) for shard, hand in hands.items() if hand]
    return found


worlds = st.integers(1, 4).flatmap(
    lambda world: st.tuples(
        st.just(world), st.lists(st.integers(0, 6), min_size=world, max_size=world + 6)
    )
)
shards_with_data = st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any)


@given(worlds)
def test_each_rank_takes_its_shards_batches_in_turn(world_lengths: tuple[int, list[int]]) -> None:
    world, lengths = world_lengths
    for rank in range(world):
        rotation = in_rotation(range(rank, len(lengths), world), lengths)
        if world == 1:
            assert steps(plan(len(lengths), allow_empty=True), lengths) == rotation
        if rotation:
            this = plan(len(lengths), steps=len(rotation), rank=rank, world=world)
            assert steps(this, lengths) == rotation


@given(worlds)
def test_all_ranks_together_take_each_batch_once(world_lengths: tuple[int, list[int]]) -> None:
    world, lengths = world_lengths
    taken: list[Name] = []
    for rank in range(world):
        if mine := sum(lengths[rank::world]):
            taken += steps(plan(len(lengths), steps=mine, rank=rank, world=world), lengths)
    assert sorted(taken) == [(0, s, i) for s, n in enumerate(lengths) for i in range(n)]


@pytest.mark.long
@given(shards_with_data, st.integers(1, 60))
def test_an_epoch_has_its_steps_and_repeats_only_when_all_shards_have_ended(
    lengths: list[int], number: int
) -> None:
    lap = [(shard, index) for _, shard, index in in_rotation(range(len(lengths)), lengths)]
    expected = [(i // len(lap), *lap[i % len(lap)]) for i in range(number)]
    found = list(read_epoch(plan(len(lengths), steps=number), lanes(lengths)))
    assert [portion.parts[0] for portion in found if portion.parts] == expected
    assert [portion.pad for portion in found] == [name[0] > 0 for name in expected]


@given(shards_with_data, st.integers(1, 40), st.data())
def test_from_any_step_on_it_is_the_same(
    lengths: list[int], number: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, number))
    whole = steps(plan(len(lengths), steps=number), lengths)
    if first < number:
        assert steps(plan(len(lengths), steps=number, first=first), lengths) == whole[first:]
    in_full = steps(plan(len(lengths)), lengths)
    if first <= len(in_full):
        assert steps(plan(len(lengths), first=first), lengths) == in_full[first:]


@given(worlds, st.integers(0, 50))
def test_no_consumed_batch_is_prepared_again_while_all_shards_continue(
    world_lengths: tuple[int, list[int]], first: int
) -> None:
    world, lengths = world_lengths
    for rank in range(world):
        this = plan(len(lengths), steps=99, rank=rank, world=world)
        behind = [
            (lane.shard, i) for lane in this.reader_plans(0, first) for i in range(lane.first)
        ]
        endless = [99] * len(lengths)
        assert sorted(behind) == sorted(name[1:] for name in steps(this, endless)[:first])


class Opened(list[Lane]):
    """The lanes that a reader has opened, each of so many batches, and of more for later shards."""

    def __init__(self, length: int, more: int = 0) -> None:
        self.length, self.more = length, more

    def __call__(self, this: ShardReaderPlan) -> Lane:
        self.append(Lane(this, self.length + self.more * this.shard))
        return self[-1]

    @property
    def are_closed(self) -> list[bool]:
        return [lane.closed for lane in self]


def test_an_endless_dataset_is_read_no_further_than_asked_and_closed() -> None:
    made = Opened(10**9)
    assert len(list(islice(read_epoch(plan(2, steps=5), made), 9))) == 5
    assert [(lane.index, lane.closed) for lane in made] == [(3, True), (2, True)]


def test_a_lane_is_closed_when_it_has_ended() -> None:
    made = Opened(1, more=1)
    reading = read_epoch(plan(2), made)
    for _ in range(3):
        next(reading)
    assert made.are_closed == [True, False]


def test_the_lanes_of_a_lap_are_opened_before_the_first_is_read_and_closed_with_their_reader() -> (
    None
):
    made = Opened(5)
    reading = read_epoch(plan(3), made)
    next(reading)
    assert made.are_closed == [False] * 3
    reading.close()
    assert made.are_closed == [True] * 3


@pytest.mark.parametrize(
    ("length", "shards", "world", "drop_last", "expected"),
    [
        (100, 1, 1, False, 25),
        (101, 1, 1, False, 26),
        (101, 1, 1, True, 25),
        (100, 4, 2, False, 14),  # each shard 25 samples: 7 batches
        (100, 4, 2, True, 12),
        (9, 2, 2, False, 2),  # 5 and 4 samples: the longer rank
    ],
)
def test_steps_follow_from_a_length(
    length: int, shards: int, world: int, drop_last: bool, expected: int
) -> None:
    this = plan(shards, length=length, world=world, drop_last=drop_last)
    assert this.expected_steps == expected
    assert this.steps == (expected if world > 1 else None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shards": 1, "world": 2}, r"d:d is read in shards=1 by 2 ranks: .* at least 2"),
        ({"shards": 2, "world": 2}, r"2 ranks must take the same .*LoaderOptions.steps="),
        ({"steps": 3, "uneven": "drop"}, r"uneven='drop' is not possible for d:d"),
        ({"rank": 1}, r"rank 1 is not in a world of 1"),
        ({"shards": 0}, r"shards is 0; it must be at least 1"),
        ({"steps": 0}, r"steps is 0; it must be at least 1"),
        ({"shuffle": True, "sampler": "d:s"}, r"sampler excludes shuffle"),
        ({"shuffle": True, "in_order": False}, r"shuffle: d:d is iterable, so its"),
        ({"on_error": "skip"}, r"on_error='skip': .* catch the errors of samples in its __iter__"),
    ],
)
def test_what_cannot_be_read_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        plan(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("this", "lengths", "message"),
    [
        (plan(2, steps=8, uneven="error"), [3, 4], r"ended after 7 steps .* at most steps=7"),
        (plan(2, steps=8, world=2), [0, 4], r"the shards \[0\] of d:d have no batch"),
        (plan(first=5), [4], r"ended after 4 steps, and the state was saved after 5"),
    ],
    ids=["too few steps", "an empty shard", "a shorter dataset"],
)
def test_shards_that_end_too_early_are_reported(
    this: ShardPlan, lengths: list[int], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        steps(this, lengths)
