"""A simulated step is what can be worked out by hand, and what the formula for it says."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence

import pytest

from launcher.errors import ParallelError
from launcher.shared import Action, ActionKind, Orders, Schedule, StageSeconds, simulate


def declared(stages: Sequence[StageSeconds], microbatches: int) -> float:
    """The sum of all stages, and (m - 1) times the slowest."""
    times = [each.forward + each.backward + each.sending for each in stages]
    return sum(times) + (microbatches - 1) * max(times)


def drawn(draw: random.Random, count: int, backward: float | None) -> list[StageSeconds]:
    """Stages of all sizes. backward: times the forward pass; None: another one for each."""
    forward = [draw.choice([1.0, draw.random(), 3 * draw.random()]) for _ in range(count)]
    return [
        StageSeconds(
            forward=each,
            backward=each * (draw.uniform(1, 3) if backward is None else backward),
            sending=0.0 if backward is not None else draw.choice([0.0, 0.3 * draw.random()]),
        )
        for each in forward
    ]


def test_a_step_by_hand() -> None:
    """Two stages, 1F1B: the second waits for the first at the ends, and the first in between."""
    orders = Orders(schedule=Schedule.INTERLEAVED, ranks=2, microbatches=2)
    stages = [
        StageSeconds(forward=1, backward=2),
        StageSeconds(forward=2, backward=4, sending=1),
    ]
    played = simulate(orders, stages)
    first, second = played.events
    assert [(*event.action, event.begin, event.end) for event in first] == [
        (ActionKind.FORWARD, 0, 0, 0, 1),
        (ActionKind.FORWARD, 0, 1, 1, 2),
        (ActionKind.BACKWARD, 0, 0, 8, 10),
        (ActionKind.BACKWARD, 0, 1, 15, 17),
    ]
    assert [(event.begin, event.end) for event in second] == [
        (1, 3.5),
        (3.5, 8),
        (8, 10.5),
        (10.5, 15),
    ]
    assert second[1].action == Action(ActionKind.BACKWARD, 1, 0)
    assert played.seconds == 17
    assert played.idle == pytest.approx(1 - (6 + 14) / 34)
    assert played.under_way == (2, 1)
    assert played.kept([10, 100]) == (20, 100)


@pytest.mark.parametrize("virtual", [1, 2, 3])
@pytest.mark.parametrize("ranks", [2, 4])
def test_the_idle_share_of_equal_stages(ranks: int, virtual: int) -> None:
    """What docs/parallel.md says of them, and less without a bubble."""
    for many in (ranks, 3 * ranks):
        stages = [StageSeconds(forward=1, backward=2)] * (ranks * virtual)
        plain, without = (
            simulate(
                Orders(schedule=each, ranks=ranks, virtual_stages=virtual, microbatches=many),
                stages,
            )
            for each in (Schedule.INTERLEAVED, Schedule.ZERO_BUBBLE)
        )
        assert plain.idle == pytest.approx((ranks - 1) / (virtual * many + ranks - 1))
        assert without.idle < plain.idle


def test_a_rank_keeps_the_most_of_its_stages_together() -> None:
    orders = Orders(schedule=Schedule.INTERLEAVED, ranks=2, virtual_stages=2, microbatches=4)
    played = simulate(orders, [StageSeconds(forward=1, backward=1)] * 4)
    assert played.under_way == (4, 3, 2, 1)
    live, most = {0: 0, 2: 0}, 0
    for event in played.events[0]:
        live[event.action.stage] += 1 if event.action.kind is ActionKind.FORWARD else -1
        most = max(most, 7 * live[0] + 11 * live[2])
    assert played.kept([7, 0, 11, 0])[0] == most


@pytest.mark.parametrize("seed", range(3))
def test_the_formula_is_the_step_where_passes_are_in_proportion(seed: int) -> None:
    """For GPipe always, and for 1F1B where stages are equal or there is one microbatch."""
    draw = random.Random(seed)
    for _ in range(100):
        ranks, many = draw.randint(1, 6), draw.randint(1, 12)
        stages = drawn(draw, ranks, backward=draw.choice([1.0, 2.0]))
        orders = Orders(schedule=Schedule.SIMPLE, ranks=ranks, microbatches=many)
        assert simulate(orders, stages).seconds == pytest.approx(declared(stages, many))
        orders = Orders(schedule=Schedule.INTERLEAVED, ranks=ranks, microbatches=max(many, ranks))
        equal = stages[:1] * ranks
        assert simulate(orders, equal).seconds == pytest.approx(declared(equal, max(many, ranks)))


@pytest.mark.parametrize("schedule", [Schedule.SIMPLE, Schedule.INTERLEAVED])
def test_how_far_the_formula_is_from_the_step(schedule: Schedule) -> None:
    """Stages of all sizes, with passes in no proportion: the formula is above as a rule."""
    draw, off = random.Random(1), []
    for _ in range(300):
        ranks = draw.randint(2, 6)
        many = ranks * draw.randint(1, 4)
        stages = drawn(draw, ranks, backward=None)
        step = simulate(Orders(schedule=schedule, ranks=ranks, microbatches=many), stages).seconds
        off.append(declared(stages, many) / step - 1)
    off.sort()
    print(
        f"{schedule.value}: formula over simulated step - 1: least {off[0]:+.3f}, median "
        f"{statistics.median(off):+.3f}, 90 % below {off[270]:+.3f}, greatest {off[-1]:+.3f}"
    )
    assert statistics.median(map(abs, off)) < 0.05


def test_no_action_begins_before_what_it_takes_is_there() -> None:
    draw = random.Random(5)
    for schedule, ranks, virtual in itertools.product(Schedule, (2, 3), (1, 2)):
        if schedule is Schedule.SIMPLE and virtual > 1:
            continue
        orders = Orders(
            schedule=schedule, ranks=ranks, virtual_stages=virtual, microbatches=2 * ranks
        )
        played = simulate(orders, drawn(draw, orders.stages, backward=None))
        events = {event.action: event for mine in played.events for event in mine}
        assert len(events) == len(orders.queue)
        for turn in orders.queue:
            begin = events[turn.action].begin
            waited = [
                orders.queue[place].action for place in (turn.before, turn.arrival) if place >= 0
            ]
            assert begin == max((events[each].end for each in waited), default=0.0)


def test_inputs_may_have_another_share_of_a_backward_pass() -> None:
    """With nothing for the inputs, backward passes cost no way through the stages."""
    orders = Orders(schedule=Schedule.ZERO_BUBBLE, ranks=2, microbatches=2)
    stages = [StageSeconds(forward=1, backward=2)] * 2
    assert simulate(orders, stages, inputs=0.0).events[0][2].begin == 2
    assert simulate(orders, stages).events[0][2].begin == 3


def test_stages_are_as_many_as_the_orders_have() -> None:
    orders = Orders(schedule=Schedule.INTERLEAVED, ranks=2, virtual_stages=2, microbatches=2)
    with pytest.raises(ParallelError, match="there are 3 stages, and 2 ranks with 2 each have 4"):
        simulate(orders, [StageSeconds(forward=1, backward=1)] * 3)
