"""The order of samples: exactly once, equal steps, and the same from every point of view."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.data.order import BatchPlan, StreamSpec, epoch_order
from launcher.errors import DataError


def spec(**changes: object) -> StreamSpec:
    fields = {"name": "s", "dataset": "m:f", "batch_size": 4, "shuffle": True, **changes}
    return StreamSpec(**fields)  # type: ignore[arg-type]


def everyone(spec: StreamSpec, length: int, world: int, position: int = 0) -> list[BatchPlan]:
    return [
        BatchPlan(spec=spec, length=length, epoch=1, rank=rank, world=world, position=position)
        for rank in range(world)
    ]


@given(st.integers(0, 2**40), st.integers(0, 5), st.integers(0, 300))
def test_the_order_is_a_permutation(seed: int, epoch: int, length: int) -> None:
    assert sorted(epoch_order(seed, epoch, length, True)) == list(range(length))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(epoch_order(seed, epoch, 50, True)) for seed in (0, 1, 2**33) for epoch in range(3)
    }
    assert len(orders) == 9


def test_the_order_is_frozen_for_all_time() -> None:
    """A saved position means the same samples under every version of numpy and of this package."""
    assert list(epoch_order(7, 2, 10, True)) == [2, 9, 1, 7, 5, 4, 3, 0, 8, 6]


def test_without_shuffling_batches_are_cut_in_order() -> None:
    plans = everyone(spec(shuffle=False), 10, 2)
    assert [[plan.sample_ids(step) for step in range(plan.steps)] for plan in plans] == [
        [[0, 1, 2, 3], [8]],
        [[4, 5, 6, 7], [9]],
    ]


@pytest.mark.parametrize(
    ("uneven", "last", "pads", "drops"),
    [("pad", [[8, 9], [10, 0]], 1, 0), ("drop", [[8], [9]], 0, 1)],
)
def test_an_uneven_last_step(uneven: str, last: list[list[int]], pads: int, drops: int) -> None:
    plans = everyone(spec(shuffle=False, uneven=uneven), 11, 2)
    assert [plan.sample_ids(1) for plan in plans] == last
    assert (plans[0].pads, plans[0].drops) == (pads, drops)


def test_an_uneven_last_step_can_be_refused() -> None:
    with pytest.raises(DataError, match=r"the last 3 of 11 samples cannot be shared evenly by 2"):
        everyone(spec(uneven="error"), 11, 2)


@pytest.mark.parametrize(
    ("length", "world", "position", "fields", "expected"),
    [
        # full steps, steps, last size, pads, drops
        pytest.param(24, 2, 0, {}, (3, 3, 0, 0, 0), id="it divides"),
        pytest.param(26, 2, 0, {}, (3, 4, 1, 0, 0), id="an even rest"),
        pytest.param(27, 2, 0, {}, (3, 4, 2, 1, 0), id="an uneven rest, padded"),
        pytest.param(27, 2, 0, {"uneven": "drop"}, (3, 4, 1, 0, 1), id="an uneven rest, dropped"),
        pytest.param(27, 2, 0, {"drop_last": True}, (3, 3, 0, 0, 3), id="no last step"),
        pytest.param(25, 3, 0, {"uneven": "drop"}, (2, 2, 0, 0, 1), id="too few for all"),
        pytest.param(25, 3, 0, {}, (2, 3, 1, 2, 0), id="too few for all, padded"),
        pytest.param(27, 2, 8, {}, (2, 3, 2, 1, 0), id="from a position on"),
        pytest.param(27, 2, 27, {}, (0, 0, 0, 0, 0), id="nothing is left"),
        pytest.param(3, 1, 0, {}, (0, 1, 3, 0, 0), id="less than one batch"),
        pytest.param(0, 5, 0, {}, (0, 0, 0, 0, 0), id="nothing at all"),
        pytest.param(27, 1, 0, {"uneven": "error"}, (6, 7, 3, 0, 0), id="one rank always divides"),
        pytest.param(
            27,
            2,
            0,
            {"uneven": "error", "drop_last": True},
            (3, 3, 0, 0, 3),
            id="no need to refuse",
        ),
    ],
)
def test_the_numbers_of_an_epoch(
    length: int, world: int, position: int, fields: dict[str, object], expected: tuple[int, ...]
) -> None:
    for plan in everyone(spec(**fields), length, world, position):
        numbers = (plan.full_steps, plan.steps, plan.last_size, plan.pads, plan.drops)
        assert numbers == expected


def test_positions_of_batches_and_resume_points() -> None:
    first, second = everyone(spec(), 27, 2, position=8)
    assert [first.positions(step) for step in range(3)] == [
        [*range(8, 12)],
        [*range(16, 20)],
        [*range(24, 26)],
    ]
    assert [second.positions(step) for step in range(3)] == [
        [*range(12, 16)],
        [*range(20, 24)],
        [*range(26, 28)],
    ]
    assert [place and place.position for place in map(first.resume_point_after, range(4))] == [
        8,
        16,
        24,
        None,
    ]


@pytest.mark.parametrize("step", [-1, 3])
def test_a_step_outside_of_the_epoch_is_refused(step: int) -> None:
    with pytest.raises(DataError, match=rf"step {step} is not in an epoch of 3 steps"):
        BatchPlan(spec=spec(), length=12, epoch=0).positions(step)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": -1}, "rank -1 is not in a world of 2"),
        ({"rank": 2}, "rank 2 is not in a world of 2"),
        ({"position": -1}, "position -1 is outside an epoch of 9 samples"),
        ({"position": 10}, "position 10 is outside an epoch of 9 samples"),
    ],
    ids=str,
)
def test_a_place_outside_of_the_world_or_the_epoch_is_refused(
    fields: dict[str, int], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        BatchPlan(**{"spec": spec(), "length": 9, "epoch": 0, "rank": 0, "world": 2, **fields})  # type: ignore[arg-type]


def test_a_stream_is_in_order_and_padded_by_default() -> None:
    plain = StreamSpec(name="s", dataset="m:f", batch_size=1)
    assert (plain.shuffle, plain.seed, plain.drop_last, plain.uneven) == (False, 0, False, "pad")
    plan = BatchPlan(spec=plain, length=3, epoch=0)
    assert (plan.rank, plan.world, plan.position) == (0, 1, 0)
    assert [plan.sample_ids(step) for step in range(plan.steps)] == [[0], [1], [2]]


def test_what_two_streams_differ_in_is_named() -> None:
    assert spec().differences(spec()) == {}
    assert spec(seed=1).differences(spec(seed=2, batch_size=8)) == {
        "seed": (1, 2),
        "batch_size": (4, 8),
    }


def test_plans_and_orders_cannot_be_changed() -> None:
    plan = BatchPlan(spec=spec(), length=9, epoch=0)
    for part, field in ((plan, "rank"), (plan.spec, "seed")):
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(part, field, 1)
    with pytest.raises(ValueError, match="read-only"):
        epoch_order(0, 0, 9, True)[0] = 1


def test_all_64_bits_of_a_seed_and_32_of_an_epoch_count() -> None:
    """Frozen as well: the halves of a large seed, and a negative one as its two's complement."""
    assert list(epoch_order((9 << 32) + 7, 1, 8, True)) == [2, 1, 3, 4, 0, 7, 5, 6]
    assert list(epoch_order(7, (1 << 32) + 1, 8, True)) == list(epoch_order(7, 1, 8, True))
    assert list(epoch_order(-1, 0, 8, True)) == list(epoch_order(2**64 - 1, 0, 8, True))
    assert list(epoch_order(7 + 2**64, 1, 8, True)) == list(epoch_order(7, 1, 8, True))
    assert list(epoch_order(2**31, 2**31, 8, True)) == [2, 1, 4, 7, 6, 0, 3, 5]
