"""The order of samples: exactly once, equal steps, and the same from every point of view."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.data.plan import Plan, StreamSpec, epoch_order
from launcher.errors import DataError


def spec(**changes: object) -> StreamSpec:
    fields = {"name": "s", "dataset": "m:f", "batch_size": 4, "shuffle": True, **changes}
    return StreamSpec(**fields)  # type: ignore[arg-type]


def everyone(spec: StreamSpec, length: int, world: int, position: int = 0) -> list[Plan]:
    return [
        Plan(spec=spec, length=length, epoch=1, rank=rank, world=world, position=position)
        for rank in range(world)
    ]


def ids(plans: list[Plan], steps: range | None = None) -> list[int]:
    return [
        index
        for plan in plans
        for step in (steps if steps is not None else range(plan.steps))
        for index in plan.sample_ids(step)
    ]


shapes = st.tuples(st.integers(0, 200), st.integers(1, 7), st.integers(1, 9))


@given(shapes, st.booleans(), st.sampled_from(["pad", "drop"]), st.booleans())
def test_every_sample_comes_exactly_once_but_for_counted_pads_and_drops(
    shape: tuple[int, int, int], shuffle: bool, uneven: str, drop_last: bool
) -> None:
    length, world, batch_size = shape
    plans = everyone(
        spec(batch_size=batch_size, shuffle=shuffle, uneven=uneven, drop_last=drop_last),
        length,
        world,
    )
    counts = np.bincount(ids(plans), minlength=length) if length else np.zeros(0, int)
    assert {plan.steps for plan in plans} == {plans[0].steps}
    assert np.maximum(counts - 1, 0).sum() == plans[0].pads
    assert (counts == 0).sum() == plans[0].drops
    assert not (plans[0].pads and plans[0].drops)


@given(shapes, st.integers(1, 7), st.data())
def test_an_epoch_goes_on_exactly_after_any_step_with_any_other_world(
    shape: tuple[int, int, int], other_world: int, data: st.DataObject
) -> None:
    length, world, batch_size = shape
    before = everyone(spec(batch_size=batch_size), length, world)
    full = before[0].full_steps
    if full == 0:
        return
    done = data.draw(st.integers(0, full - 1))
    position = before[0].position_after(done)
    if position is None:
        return
    after = everyone(spec(batch_size=batch_size), length, other_world, position)
    counts = np.bincount(ids(before, range(done + 1)) + ids(after), minlength=length)
    assert counts.min() == 1
    assert np.maximum(counts - 1, 0).sum() == after[0].pads


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
    "fields",
    [{"batch_size": 0}, {"uneven": "maybe"}],
    ids=["no samples a batch", "no such policy"],
)
def test_a_bad_stream_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(DataError, match=next(iter(fields))):
        spec(**fields)
