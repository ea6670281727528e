"""Ranks that read a stream at the same time must read it alike."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from launcher.data.dispatcher import RankConsistency, StreamReader
from launcher.data.order import BatchPlan, ShardReaderPlan, StreamSpec

SPEC = StreamSpec(name="train", dataset="pipeline:train_set", batch_size=8)
SAMPLED = replace(SPEC, sampler="pipeline:order")


def reader(rank: int, spec: StreamSpec = SPEC, reading: int = 1, **plan: Any) -> StreamReader:
    """A rank of two, as a rule, that reads 100 samples."""
    parts = {"length": 100, "epoch": 0, "rank": rank, "world": 2, **plan}
    plan_of_it = BatchPlan(spec=spec, **parts)
    return StreamReader(rank=rank, receiver=f"host-{rank}", plan=plan_of_it, reading=reading)


def lane(rank: int, spec: StreamSpec) -> StreamReader:
    return StreamReader(
        rank=rank, receiver="host", plan=ShardReaderPlan(spec=spec, epoch=0, shard=rank)
    )


def objection(readers: RankConsistency, other: StreamReader) -> str:
    """The only one that there is."""
    (words,) = readers.objections(other).values()
    return words


def admitted(readers: RankConsistency, run: str, other: StreamReader) -> bool:
    """Whether there was none, so that the run is open now."""
    if readers.objections(other):
        return False
    readers.open(run, other)
    return run in readers


@pytest.fixture
def readers() -> RankConsistency:
    """Rank 0 has an open run."""
    found = RankConsistency()
    found.open("0-0", reader(0))
    return found


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            reader(1, replace(SPEC, batch_size=4, shuffle=True)),
            "batch_size=4 on rank 1 and 8 on rank 0, shuffle=True on rank 1 and False on rank 0: "
            "give the loaders of all ranks the same arguments",
        ),
        (reader(1, world=3), "world_size=3 on rank 1 and 2 on rank 0: give"),
        (
            reader(1, length=99),
            "len\\(dataset\\)=99 on rank 1 and 100 on rank 0: the dataset must have",
        ),
        (reader(0, replace(SPEC, drop_last=True)), "drop_last=True on rank 0 and False on rank 0"),
        (reader(1, length=50, dataset_length=99), "len.dataset.=99 on rank 1 and 100 on rank 0"),
    ],
)
def test_a_rank_that_reads_otherwise_is_refused(
    readers: RankConsistency, other: StreamReader, words: str
) -> None:
    assert re.search(f"'train' with different settings, {words}", objection(readers, other))
    assert admitted(readers, "1-1", reader(1))  # what was refused binds nobody


def test_a_sampler_that_gives_two_orders_is_refused() -> None:
    readers = RankConsistency()
    assert admitted(readers, "0-0", reader(0, SAMPLED, dataset_length=100, digest="aa"))
    assert admitted(readers, "1-1", reader(1, SAMPLED, dataset_length=100, epoch=1, digest="bb"))
    words = objection(readers, reader(1, SAMPLED, dataset_length=100, digest="bb"))
    assert "of epoch 0='bb' on rank 1 and 'aa' on rank 0: a sampler" in words


def test_lanes_are_held_to_the_arguments() -> None:
    spec = replace(SPEC, shards=2)
    readers = RankConsistency()
    assert admitted(readers, "0-0", lane(0, spec))
    assert admitted(readers, "1-0", lane(1, spec))
    words = readers.objections(lane(1, replace(spec, shards=3)))
    assert "shards=3 on rank 1 and 2 on rank 0" in words["0-0"]
    assert "shards=3 on rank 1 and 2 on rank 1" in words["1-0"]


@pytest.mark.parametrize(
    "other",
    [
        reader(1),
        reader(1, epoch=1),
        reader(1, position=32),
        reader(1, replace(SPEC, name="other", batch_size=4)),
        reader(0, world=1, length=50),
        reader(0, length=50, epoch=3),
    ],
    ids=["alike", "next epoch", "another place", "another name", "by itself", "same rank"],
)
def test_who_reads_alike_or_something_else_is_not(
    readers: RankConsistency, other: StreamReader
) -> None:
    assert admitted(readers, "run", other)


@pytest.mark.parametrize(
    ("other", "place"),
    [
        (reader(1, position=32), "position 32 of epoch 0,"),
        (reader(1, epoch=1), "position 0 of epoch 1,"),
        (reader(1, holes=((2, 4),), position=8), "position 8 of epoch 0, with 1 unread ranges"),
    ],
)
def test_ranks_that_begin_at_two_places_are_named_once(
    readers: RankConsistency, other: StreamReader, place: str
) -> None:
    words = readers.start_mismatch(other)
    assert words is not None
    assert words.startswith(f"rank 1 starts at {place}")
    assert "rank 0 at position 0 of epoch 0: if only some" in words
    assert readers.start_mismatch(other) is None


@pytest.mark.parametrize(
    "other",
    [
        reader(1),
        reader(1, reading=2, epoch=1),
        reader(1, reading=0, epoch=1),
        reader(0, world=1, position=8),
        reader(1, replace(SPEC, name="other"), position=8),
        lane(1, replace(SPEC, shards=2)),
    ],
    ids=["alike", "read once more", "opened early", "by itself", "another name", "a shard"],
)
def test_who_may_begin_elsewhere_is_not(readers: RankConsistency, other: StreamReader) -> None:
    assert readers.start_mismatch(other) is None


def test_in_any_order_each_rank_has_a_place_of_its_own() -> None:
    readers, spec = RankConsistency(), replace(SPEC, in_order=False)
    readers.open("0-0", reader(0, spec))
    assert readers.start_mismatch(reader(1, spec, epoch=1)) is None


def test_ranks_that_are_started_again_may_read_otherwise(readers: RankConsistency) -> None:
    """In another world, with another batch size: those before them bind nobody."""
    assert admitted(readers, "1-0", reader(1))
    readers.close("0-0")
    again = replace(SPEC, batch_size=4)
    assert "batch_size" in objection(readers, reader(0, again, world=3))  # rank 1 still reads
    readers.close("1-0")
    assert "1-0" not in readers
    assert admitted(readers, "0-1", reader(0, again, world=3))
    assert admitted(readers, "1-1", reader(1, again, world=3))


def test_the_runs_of_a_lost_receiver_constrain_no_other(readers: RankConsistency) -> None:
    assert admitted(readers, "1-0", reader(1))
    readers.forget("host-0")
    readers.forget("host-1")
    assert admitted(readers, "1-1", reader(1, world=3))
    readers.close("0-0")  # known no more
