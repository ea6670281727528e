"""Orders and resuming, whatever the stream, the world and the moment: generated cases."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.data import LoaderProgress, read_state, write_state
from launcher.data.order import (
    BatchPlan,
    ResumePoint,
    StreamSpec,
    make_plan,
    sampled,
    sampled_order,
)
from launcher.errors import DataError

EPOCH = 2


@st.composite
def streams(draw: st.DrawFn) -> StreamSpec:
    kind = draw(st.sampled_from(["built in", "one by one", "sampler", "batch_sampler"]))
    options: dict[str, object] = {
        "uneven": draw(st.sampled_from(["pad", "drop"])),
        "seed": draw(st.integers(0, 2**40)),
        "in_order": draw(st.booleans()),
    }
    if kind == "batch_sampler":
        options["batch_sampler"] = "samplings:growing_batches"
    elif kind == "one by one":
        options |= {"batch_size": None, "shuffle": draw(st.booleans())}
    else:
        options |= {"batch_size": draw(st.integers(1, 7)), "drop_last": draw(st.booleans())}
        if kind == "sampler":
            options["sampler"] = "samplings:twice_the_odd"
        else:
            options["shuffle"] = draw(st.booleans())
    return StreamSpec(name="s", dataset="samplings:set", **options)  # type: ignore[arg-type]


@dataclass
class World:
    """Ranks that read one stream, with or without an order among their steps."""

    spec: StreamSpec
    length: int
    places: list[ResumePoint]
    taken: list[list[tuple[int, int]]] = field(default_factory=list)  # (place, id) by rank

    def __post_init__(self) -> None:
        world = len(self.places)
        self.plans = [
            make_plan(self.spec, self.length, place, rank=rank, world=world)
            for rank, place in enumerate(self.places)
        ]
        self.progress = [LoaderProgress(plan) for plan in self.plans]
        self.taken = [[] for _ in self.plans]

    def read(self, steps: int, draw: st.DataObject) -> list[dict[str, object]]:
        """Let each rank take some steps; returns their states, as they are read from a file."""
        for rank, plan in enumerate(self.plans):
            order = list(range(plan.steps))
            if not self.spec.in_order:
                order = draw.draw(st.permutations(order))
            for step in order[:steps]:
                self.taken[rank] += plan.samples(step)
                self.progress[rank].record(step)
        return [
            json.loads(json.dumps(write_state(self.spec, place, rank=rank, world=len(self.plans))))
            for rank, place in enumerate(self._places())
        ]

    def _places(self) -> list[ResumePoint]:
        return [progress.resume_point or ResumePoint(epoch=EPOCH + 1) for progress in self.progress]


def begin(spec: StreamSpec, length: int, world: int) -> World:
    return World(spec, length, [ResumePoint(epoch=EPOCH)] * world)


def check_exactly_once(worlds: list[World]) -> None:
    """What all ranks of all worlds took is the epoch, but for pads and the last plan's drops."""
    order = worlds[-1].plans[0].order
    taken = [sample for world in worlds for samples in world.taken for sample in samples]
    inside = Counter(place for place, _ in taken if place < len(order.ids))
    assert all(index == order.ids[place % len(order.ids)] for place, index in taken)
    expected = Counter(range(len(order.ids)))
    last = worlds[-1].plans[0]
    expected.subtract(place for place, _ in last.samples_at(last.dropped))
    assert inside == +expected
    # A plan that its ranks went on with, each from a state of its own, has its pads but once.
    parts = [world for world in worlds if origin(world.plans[0]) == origin(last)]
    again = [place for world in parts for samples in world.taken for place, _ in samples]
    pads = sum(place >= len(order.ids) for place in again)
    assert pads == (last.count(last.padded) if again else 0)


def origin(plan: BatchPlan) -> tuple[object, ...]:
    return plan.position, plan.holes, plan.world, plan.spec.batch_size


def check_equal_steps(plans: list[BatchPlan]) -> None:
    assert len({plan.steps for plan in plans}) == 1


sizes = st.integers(0, 60)
worlds = st.integers(1, 5)


@settings(deadline=None)
@given(streams(), sizes, worlds, st.data())
def test_an_epoch_is_each_sample_once_in_equal_steps(
    spec: StreamSpec, length: int, world: int, data: st.DataObject
) -> None:
    reading = begin(spec, length, world)
    check_equal_steps(reading.plans)
    reading.read(10**6, data)
    check_exactly_once([reading])


@settings(deadline=None)
@given(streams(), sizes, worlds, st.integers(0, 20), st.data())
def test_the_same_world_resumes_exactly(
    spec: StreamSpec, length: int, world: int, stop: int, data: st.DataObject
) -> None:
    spec = replace(spec, in_order=True)
    whole, first = begin(spec, length, world), begin(spec, length, world)
    whole.read(10**6, data)
    states = first.read(stop, data)
    if stop >= first.plans[0].steps:
        return
    places = [read_state(states[0], spec, rank=rank, world=world) for rank in range(world)]
    second = World(spec, length, places)
    second.read(10**6, data)
    joined = [a + b for a, b in zip(first.taken, second.taken, strict=True)]
    assert joined == whole.taken
    check_exactly_once([first, second])


@pytest.mark.long
@settings(deadline=None)
@given(streams(), sizes, st.lists(st.tuples(worlds, st.integers(0, 12)), min_size=1), st.data())
def test_other_worlds_and_batch_sizes_resume_with_the_remaining_samples(
    spec: StreamSpec, length: int, stops: list[tuple[int, int]], data: st.DataObject
) -> None:
    """A chain of restarts, each at any step, some in order and some not."""
    read = []
    places: list[ResumePoint] | None = None
    for world, stop in [*stops, (data.draw(worlds), 10**6)]:
        reading = World(spec, length, places or [ResumePoint(epoch=EPOCH)] * world)
        check_equal_steps(reading.plans)
        read.append(reading)
        states = reading.read(stop, data)
        if stop >= reading.plans[0].steps:
            break  # the epoch is over
        after = data.draw(worlds)
        spec = replace(spec, in_order=data.draw(st.booleans()))
        if spec.batch_size is not None and spec.batch_sampler is None:
            spec = replace(spec, batch_size=data.draw(st.integers(1, 7)))
        places = [read_state(states, spec, rank=rank, world=after) for rank in range(after)]
    check_exactly_once(read)


@pytest.mark.long
@settings(deadline=None)
@given(streams(), sizes, worlds, st.integers(0, 20), st.integers(0, 20), st.data())
def test_out_of_order_each_rank_of_the_same_world_resumes_from_its_own_state(
    spec: StreamSpec, length: int, world: int, first: int, second: int, data: st.DataObject
) -> None:
    spec = replace(spec, in_order=False)
    reading = begin(spec, length, world)
    read = [reading]
    for stop in (first, second, 10**6):
        states = reading.read(stop, data)
        if stop >= reading.plans[0].steps:
            break
        places = [read_state(states[r], spec, rank=r, world=world) for r in range(world)]
        reading = World(spec, length, places)
        read.append(reading)
    everything = [sample for part in read for samples in part.taken for sample in samples]
    whole = begin(spec, length, world)
    whole.read(10**6, data)
    assert Counter(everything) == Counter(s for samples in whole.taken for s in samples)


@settings(deadline=None)
@given(sizes, worlds, st.integers(1, 7))
def test_uneven_error_refuses_just_what_does_not_divide(
    length: int, world: int, batch_size: int
) -> None:
    spec = StreamSpec(name="s", dataset="m:f", batch_size=batch_size, uneven="error")
    try:
        plan = make_plan(spec, length, ResumePoint(epoch=0), rank=0, world=world)
    except DataError:
        assert length % (world * batch_size) % world
    else:
        assert (plan.pads, plan.drops) == (0, 0)


def test_a_state_stays_small_however_long_the_epoch() -> None:
    spec = StreamSpec(name="s", dataset="package.pipeline:train_set", batch_size=64, in_order=False)
    plan = make_plan(spec, 10**8, ResumePoint(epoch=7), rank=3, world=8)
    progress = LoaderProgress(plan)
    for step in range(100_000):
        if step % 20_000 != 17:  # stragglers
            progress.record(step)
    assert progress.resume_point is not None
    assert len(json.dumps(write_state(spec, progress.resume_point, rank=3, world=8))) < 600


# What samplers may do ------------------------------------------------------------------------


def test_the_length_of_an_epoch_may_vary() -> None:
    spec = StreamSpec(name="s", dataset="samplings:set", sampler="samplings:twice_the_odd")
    lengths = [len(sampled(spec, epoch, 10)) for epoch in range(4)]
    assert lengths == [15, 14, 13, 15]


def test_global_random_numbers_of_a_sampler_are_the_same_on_every_host() -> None:
    def drawn(epoch: int, seed: int) -> list[int]:
        sampled_order.cache_clear()  # as another process
        name = "samplings:by_global_chance"
        spec = StreamSpec(name="s", dataset="samplings:set", sampler=name, seed=seed)
        return sampled(spec, epoch, 1000).ids.tolist()

    assert drawn(0, 0) == drawn(0, 0)
    assert drawn(0, 0) != drawn(1, 0) != drawn(1, 1)


def test_a_sampler_that_was_loaded_again_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook, after an edit."""
    samplings = pytest.importorskip("samplings")
    spec = StreamSpec(name="s", dataset="samplings:set", sampler="samplings:twice_the_odd")
    before = sampled(spec, 0, 4).ids.tolist()
    monkeypatch.setattr(samplings, "twice_the_odd", samplings.twice_the_odd)  # put back at the end
    for last in (3, 2, 1, 3, 2, 1):  # the memory of a function that is gone may be the next one's
        samplings.twice_the_odd = lambda *_, last=last: [last]
        assert sampled(spec, 0, 4).ids.tolist() == [last] != before


def test_a_sampler_that_is_not_pure_is_found_out() -> None:
    spec = StreamSpec(name="s", dataset="samplings:set", sampler="samplings:impure")
    plan = make_plan(spec, 100, ResumePoint(epoch=3), rank=1, world=2)
    sampled_order.cache_clear()  # as another process
    with pytest.raises(
        DataError, match=r"impure returned one order of epoch 3 to rank 1, and another one .* pure"
    ):
        plan.samples(0)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("sampler", "outside", r"samplings:outside gave the sample id 10; the dataset has 10"),
        ("sampler", "fractions", r"gave \[0\.5\] where sample ids are expected"),
        ("batch_sampler", "twice_the_odd", r"gave \d where sample ids are expected"),
        ("sampler", "growing_batches", r"where sample ids are expected"),
        ("batch_sampler", "hollow", r"gave an empty batch \(number 1 of epoch 0\): leave it out"),
        ("sampler", "failing", r"raised KeyError\('no weights'\).*sampler\(length=10, epoch=0"),
        ("sampler", "without_arguments", r"it is called as sampler\(length=10, epoch=0, seed=0\)"),
        ("sampler", "missing", r"the sampler samplings:missing could not be imported"),
    ],
)
def test_a_sampler_that_gives_no_order_is_refused(kind: str, name: str, message: str) -> None:
    spec = StreamSpec(name="s", dataset="samplings:set", **{kind: f"samplings:{name}"})
    with pytest.raises(DataError, match=f"(?s){message}"):
        make_plan(spec, 10, ResumePoint(epoch=0), rank=0, world=1)


def test_an_empty_epoch_has_no_steps() -> None:
    spec = StreamSpec(name="s", dataset="samplings:set", sampler="samplings:nothing")
    assert make_plan(spec, 10, ResumePoint(epoch=0), rank=0, world=3).steps == 0


# What states refuse --------------------------------------------------------------------------


def state_of(spec: StreamSpec, length: int = 20) -> dict[str, object]:
    progress = LoaderProgress(make_plan(spec, length, ResumePoint(epoch=0), rank=0, world=2))
    progress.record(1 if not spec.in_order else 0)
    assert progress.resume_point is not None
    return write_state(spec, progress.resume_point, rank=0, world=2)


def test_a_dataset_that_has_grown_cannot_be_gone_on_with() -> None:
    spec = StreamSpec(name="s", dataset="m:f", batch_size=2)
    place = read_state(state_of(spec), spec, rank=0, world=2)
    with pytest.raises(DataError, match=r"epoch 0 of 20 samples.* now has 21.*set_epoch\(1\)"):
        make_plan(spec, 21, place, rank=0, world=2)


def test_a_sampler_that_has_changed_cannot_be_gone_on_with() -> None:
    spec = StreamSpec(name="s", dataset="samplings:set", sampler="samplings:twice_the_odd")
    place = read_state(state_of(spec), spec, rank=0, world=2)
    changed = replace(spec, sampler="samplings:by_global_chance")
    with pytest.raises(DataError, match="the sampler's order has changed"):
        make_plan(changed, 20, place, rank=0, world=2)


def test_other_ranks_need_the_states_of_all_when_there_is_no_order() -> None:
    spec = StreamSpec(name="s", dataset="m:f", batch_size=2, in_order=False)
    state = state_of(spec)
    with pytest.raises(DataError, match=r"these cover the ranks \[0\] of a world of 2.*as a list"):
        read_state(state, spec, rank=1, world=2)
    with pytest.raises(DataError, match="no state to load"):
        read_state([], spec, rank=1, world=2)


def test_states_in_order_are_of_one_step() -> None:
    spec = StreamSpec(name="s", dataset="m:f", batch_size=2)
    states = [state_of(spec), {**state_of(spec), "position": 8}]
    expected = "at different steps: at position 4 of epoch 0, and 8 of epoch 0; ranks that read in"
    with pytest.raises(DataError, match=expected):
        read_state(states, spec, rank=1, world=2)
    assert read_state(states[:1] * 2, spec, rank=1, world=2).position == 4


@pytest.mark.parametrize(
    "damage", [{"position": None}, {"epoch": "x"}, {"holes": [1]}], ids=lambda d: next(iter(d))
)
def test_a_damaged_state_is_refused(damage: dict[str, object]) -> None:
    spec = StreamSpec(name="s", dataset="m:f", batch_size=2)
    with pytest.raises(DataError, match="not a state of this loader, or a damaged one"):
        read_state({**state_of(spec), **damage}, spec, rank=0, world=2)
