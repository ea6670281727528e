"""Who has which stage of which replica, and how many samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.errors import ParallelError
from launcher.shared import ParallelDims, RankPlacement

counts = st.integers(1, 12)
some = st.builds(
    lambda data, pipeline, placement: ParallelDims(
        world=data * pipeline, pipeline=pipeline, placement=placement
    ),
    counts,
    counts,
    st.sampled_from(RankPlacement),
)


@pytest.mark.parametrize(
    ("placement", "grid"),
    [
        (RankPlacement.CLUSTER, ((0, 1), (2, 3), (4, 5), (6, 7))),
        (RankPlacement.SPREAD, ((0, 4), (1, 5), (2, 6), (3, 7))),
    ],
    ids=["cluster", "spread"],
)
def test_placement_determines_the_ranks_of_a_replica(
    placement: RankPlacement, grid: tuple[tuple[int, ...], ...]
) -> None:
    """Two stages on eight ranks: the example of the model-parallel library's own guide."""
    assert ParallelDims(world=8, pipeline=2, placement=placement).grid == grid


@pytest.mark.long
@given(some)
def test_every_rank_has_one_stage_of_one_replica(degrees: ParallelDims) -> None:
    ranks = range(degrees.world)
    assert sorted(rank for replica in degrees.grid for rank in replica) == list(ranks)
    for rank in ranks:
        dp_rank, pp_rank = degrees.dp_rank(rank), degrees.pp_rank(rank)
        assert degrees.rank_at(dp_rank=dp_rank, pp_rank=pp_rank) == rank
        assert degrees.grid[dp_rank][pp_rank] == rank


@pytest.mark.long
@given(some)
def test_groups_are_the_rows_and_the_columns_of_the_grid(degrees: ParallelDims) -> None:
    for rank in range(degrees.world):
        assert degrees.pp_group(rank) == degrees.grid[degrees.dp_rank(rank)]
        column = tuple(replica[degrees.pp_rank(rank)] for replica in degrees.grid)
        assert degrees.dp_group(rank) == column


@given(counts, counts, counts, counts, counts)
def test_the_parts_of_a_global_batch_are_the_whole_of_it(
    data: int, pipeline: int, accumulation: int, microbatches: int, microbatch: int
) -> None:
    degrees = ParallelDims(
        world=data * pipeline,
        pipeline=pipeline,
        global_batch=data * accumulation * microbatches * microbatch,
        accumulation=accumulation,
        microbatches=microbatches,
    )
    assert (degrees.data, degrees.microbatch) == (data, microbatch)
    assert degrees.batch == microbatches * microbatch
    assert degrees.batch * degrees.data * accumulation == degrees.global_batch


def test_the_batch_needs_no_description() -> None:
    degrees = ParallelDims(world=4, microbatches=8)
    assert (degrees.batch, degrees.microbatch) == (None, None)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"world": 0}, "world is 0, and must be a whole number of at least 1"),
        ({"world": 4, "pipeline": True}, "pipeline is True, and must be"),
        ({"world": 4, "pipeline": 2.0}, "pipeline is 2.0, and must be"),
        (
            {"world": 4, "microbatches": -1, "accumulation": 0},
            "accumulation is 0.*microbatches is -1",
        ),
        ({"world": 6, "pipeline": 4}, "6 ranks are not divisible by 4.*use 4 or 8 ranks"),
        ({"world": 2, "pipeline": 4}, "2 ranks are not divisible by 4.*use 4 ranks"),
        (
            {"world": 4, "pipeline": 2, "global_batch": 30, "microbatches": 4},
            "global_batch is 30, which is not divisible by 2 replicas x 1 accumulated batches x 4 "
            "microbatches: use 24 or 32",
        ),
        ({"world": 4, "global_batch": 3}, "use 4$"),
        ({"world": 4, "shard_degree": 0}, "shard_degree is 0, and must be"),
        (
            {"world": 8, "pipeline": 2, "shard_degree": 3},
            r"shard_degree is 3, which does not divide the 4 replicas \(8 ranks, 2 pipeline "
            r"stages\): use 1, 2 or 4",
        ),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ParallelError, match=words):
        ParallelDims(**wrong)


def test_stages_of_several_on_a_rank_come_by_turns() -> None:
    degrees = ParallelDims(world=8, pipeline=2, virtual_stages=3)
    assert (degrees.data, degrees.stages) == (4, 6)
    assert degrees.stages_of(0) == (0, 2, 4)
    assert degrees.stages_of(1) == (1, 3, 5)
    assert [degrees.holder(stage) for stage in range(6)] == [0, 1, 0, 1, 0, 1]
    with pytest.raises(ParallelError, match="6 is out of range: the stages are 0 to 5"):
        degrees.holder(6)


@pytest.mark.parametrize(
    ("placement", "grid"),
    [
        (RankPlacement.CLUSTER, (((0, 1), (2, 3)), ((4, 5), (6, 7)))),
        (RankPlacement.SPREAD, (((0, 4), (1, 5)), ((2, 6), (3, 7)))),
    ],
    ids=["cluster", "spread"],
)
def test_neighbouring_replicas_share_their_stages(
    placement: RankPlacement, grid: tuple[tuple[tuple[int, ...], ...], ...]
) -> None:
    degrees = ParallelDims(world=8, pipeline=2, shard_degree=2, placement=placement)
    assert degrees.shard_grid == grid
    assert (degrees.data, degrees.replicate_degree) == (4, 2)


@pytest.mark.parametrize("rank", [-1, 8, 100])
def test_a_rank_that_is_not_there_is_refused(rank: int) -> None:
    degrees = ParallelDims(world=8, pipeline=2)
    for ask in (degrees.pp_rank, degrees.dp_rank, degrees.pp_group, degrees.dp_group):
        with pytest.raises(ParallelError, match=f"{rank} is out of range: the ranks are 0 to 7"):
            ask(rank)
    with pytest.raises(ParallelError, match="2 is out of range: the stages are 0 to 1"):
        degrees.rank_at(dp_rank=0, pp_rank=2)
