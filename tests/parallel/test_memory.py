"""The bytes of a rank, by arithmetic: against sums that were made by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from launcher.shared import Activations, Footprint, MemorySavings, ParallelDims, need
from launcher.trainers import memory_advice

#: 1,000 bytes of parameters, AdamW, and four blocks.
MODEL = Footprint(
    parameters=1000,
    gradients=1000,
    states=2000,
    largest=200,
    rest=100,
    activations={
        (False, False): Activations(sample=100),
        (True, False): Activations(sample=50, fixed=500),
        (False, True): Activations(sample=30),
        (True, True): Activations(sample=15, fixed=500),
    },
)


@pytest.mark.parametrize(
    ("degrees", "savings", "simple", "bytes_of_a_rank"),
    [
        ({"world": 1, "global_batch": 8}, {}, False, (1000, 1000, 2000, 800)),
        ({"world": 2, "global_batch": 8}, {}, False, (1000, 2000, 2000, 400)),
        ({"world": 1, "global_batch": 8, "accumulation": 8}, {}, False, (1000, 1000, 2000, 100)),
        ({"world": 1, "global_batch": 8}, {"precision": True}, False, (1000, 1000, 2000, 900)),
        ({"world": 1, "global_batch": 8}, {"recomputed": True}, False, (1000, 1000, 2000, 240)),
        ({"world": 4, "global_batch": 8}, {"sharded": True}, False, (750, 250, 500, 200)),
        (
            {"world": 4, "global_batch": 8, "accumulation": 2},
            {"sharded": True},
            False,
            (750, 1000, 500, 100),
        ),
        (
            {"world": 2, "pipeline": 2, "microbatches": 4, "global_batch": 8},
            {},
            False,
            (500, 500, 1000, 200),
        ),
        (
            {"world": 2, "pipeline": 2, "microbatches": 4, "global_batch": 8},
            {},
            True,
            (500, 500, 1000, 400),
        ),
        (
            {"world": 4, "pipeline": 2, "microbatches": 2, "global_batch": 8},
            {},
            False,
            (500, 1000, 1000, 200),
        ),
        (
            {"world": 8, "pipeline": 2, "shard_degree": 4, "microbatches": 2, "global_batch": 16},
            {},
            False,
            (575, 500, 250, 200),
        ),
        (
            {"world": 8, "pipeline": 2, "shard_degree": 2, "microbatches": 2, "global_batch": 16},
            {},
            False,
            (700, 500, 500, 200),
        ),
    ],
    ids=[
        "one",
        "replicas keep a copy of gradients",
        "accumulated",
        "16 bits",
        "recomputed",
        "sharded",
        "sharded, with gradients added up",
        "pipeline",
        "all microbatches first",
        "hybrid",
        "sharded stages",
        "two sets of shards",
    ],
)
def test_a_rank_needs(
    degrees: dict[str, int],
    savings: dict[str, bool],
    simple: bool,
    bytes_of_a_rank: tuple[int, int, int, int],
) -> None:
    found = need(MODEL, ParallelDims(**degrees), MemorySavings(**savings), simple=simple)
    assert (found.parameters, found.gradients, found.states, found.activations) == bytes_of_a_rank
    assert found.total == sum(bytes_of_a_rank)


def rungs(degrees: ParallelDims, **savings: bool) -> list[tuple[str, int]]:
    return [
        (each.change, each.need.total)
        for each in memory_advice(MODEL, degrees, MemorySavings(**savings))
    ]


def test_the_ladder_of_replicas() -> None:
    assert rungs(ParallelDims(world=4, global_batch=64)) == [
        ("accumulation: 16", 5100),
        ("precision: bf16", 6300),
        ("recomputed: [its blocks]", 5480),
        ("sharded: true", 3100),
        ("model_parallel: {partitions: 4, microbatches: 16}", 1400),
        ("model_parallel: {partitions: 2, microbatches: 8}, 2 replicas", 2900),
    ]


def test_one_rank_is_advised_to_use_a_second() -> None:
    changes = [change for change, _ in rungs(ParallelDims(world=1, global_batch=16))]
    assert changes == [
        "accumulation: 16",
        "precision: bf16",
        "recomputed: [its blocks]",
        "sharded: true, on 2 ranks",
        "model_parallel: {partitions: 2, microbatches: 8}, on 2 ranks",
    ]


def test_replicas_of_stages_are_advised_to_share_them() -> None:
    degrees = ParallelDims(world=4, pipeline=2, microbatches=8, global_batch=16)
    assert ("shard_degree: 2", 700 + 500 + 500 + 100) in rungs(degrees)
    shards = ParallelDims(world=4, pipeline=2, microbatches=8, global_batch=16, shard_degree=2)
    assert not [change for change, _ in rungs(shards) if "shard" in change]


def test_blocks_that_stay_gathered_are_a_whole_stage() -> None:
    degrees = ParallelDims(world=4, pipeline=2, shard_degree=2)
    assert need(MODEL, degrees, MemorySavings(), keep_gathered=True).parameters == 250 + 500


def test_savings_in_use_are_not_advised_again() -> None:
    degrees = ParallelDims(world=2, pipeline=2, microbatches=8, global_batch=8)
    assert rungs(degrees, precision=True, recomputed=True) == []
