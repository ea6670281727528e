"""Orders are those in which torch's schedules run, and those say how much is under way."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("torch")

from torch import nn

from launcher.errors import ParallelError
from launcher.parallel import make_schedule
from launcher.shared import Action, ActionKind, Orders, ParallelDims, Schedule


class Noting:
    """A stage as torch's schedules run them, with nothing to send, that notes what it is to do."""

    def __init__(self, number: int, ranks: int, stages: int, noted: list[Action]) -> None:
        self.stage_index, self.num_stages = number, stages
        self.group_rank, self.group_size = number % ranks, ranks
        self.is_first, self.is_last = number == 0, number == stages - 1
        self.has_backward, self.device, self.submod = True, "cpu", nn.Identity()
        self.args_recv_info: dict[int, tuple[Any, ...]] = {0: ()}
        self.act_send_info: dict[int, list[int]] = {}
        self._noted = noted

    def forward_one_chunk(self, microbatch: int, *_: Any, **__: Any) -> None:
        self._noted.append(Action(ActionKind.FORWARD, self.stage_index, microbatch))

    def backward_one_chunk(self, microbatch: int, full_backward: bool = True, **_: Any) -> None:
        kind = ActionKind.BACKWARD if full_backward else ActionKind.INPUT
        self._noted.append(Action(kind, self.stage_index, microbatch))

    def backward_weight_one_chunk(self, microbatch: int, **_: Any) -> None:
        self._noted.append(Action(ActionKind.WEIGHT, self.stage_index, microbatch))

    def __getattr__(self, name: str) -> Callable[..., list[Any]]:
        return lambda *_, **__: []  # what is sent, and prepared for it


def noted(orders: Orders, rank: int) -> list[Action]:
    """What torch's schedule of a rank does in a step."""
    found: list[Action] = []
    degrees = ParallelDims(
        world=orders.ranks,
        pipeline=orders.ranks,
        microbatches=orders.microbatches,
        virtual_stages=orders.virtual_stages,
    )
    stages: list[Any] = [
        Noting(number, orders.ranks, orders.stages, found) for number in degrees.stages_of(rank)
    ]
    schedule = make_schedule(orders.schedule, stages, degrees, lambda output, target: None)
    schedule._step_microbatches(target_mbs=[None] * orders.microbatches)
    return found


def possible(ranks: Sequence[int], virtual: Sequence[int], most: int) -> Iterator[Orders]:
    """All orders with up to so many microbatches that there can be."""
    for schedule, p, v, m in itertools.product(Schedule, ranks, virtual, range(1, most + 1)):
        with contextlib.suppress(ParallelError):
            yield Orders(schedule=schedule, ranks=p, virtual_stages=v, microbatches=m)


SOME = list(possible((1, 2, 3), (1, 2, 3), 7))
MANY = [*possible((1, 2, 3, 4, 8), (1, 2, 3), 10), *possible((4,), (2, 4), 24)]


@pytest.mark.parametrize("those", [SOME, pytest.param(MANY, marks=pytest.mark.slow)], ids=len)
def test_orders_are_those_of_torch(those: list[Orders]) -> None:
    for orders in those:
        for rank in range(orders.ranks):
            assert list(orders.actions[rank]) == noted(orders, rank), (orders, rank)


def test_a_queue_has_all_actions_each_behind_what_it_waits_for() -> None:
    for orders in SOME:
        done: list[Action] = []
        for turn in orders.queue:
            kind, stage, microbatch = turn.action
            if kind is ActionKind.FORWARD and stage:
                assert Action(kind, stage - 1, microbatch) == done[turn.arrival]
            elif kind in (ActionKind.BACKWARD, ActionKind.INPUT):
                assert Action(ActionKind.FORWARD, stage, microbatch) in done
                if stage < orders.stages - 1:
                    assert Action(kind, stage + 1, microbatch) == done[turn.arrival]
            done.append(turn.action)
        for rank, mine in enumerate(orders.actions):
            assert [turn.action for turn in orders.queue if turn.rank == rank] == list(mine)
            behind = [turn.before for turn in orders.queue if turn.rank == rank]
            assert [done[place] for place in behind[1:]] == list(mine[:-1])
            assert behind[0] == -1


@pytest.mark.parametrize("many", [4, 7, 16])
def test_under_way_with_one_stage_on_each_rank(many: int) -> None:
    """What tests/parallel/test_schedules.py counts in real ranks."""
    simple = Orders(schedule=Schedule.SIMPLE, ranks=4, microbatches=many)
    plain = Orders(schedule=Schedule.INTERLEAVED, ranks=4, microbatches=many)
    for rank in range(4):
        assert simple.under_way[rank] == ((many,),)
        assert plain.under_way[rank] == ((min(many, 4 - rank),),)


def test_under_way_with_virtual_stages() -> None:
    """As many passes as a rank starts before its first backward pass, and that one."""
    for p, v, m in itertools.product((2, 3, 4), (2, 3), (12, 24)):
        orders = Orders(schedule=Schedule.INTERLEAVED, ranks=p, virtual_stages=v, microbatches=m)
        for rank in range(p):
            most = max(map(sum, orders.under_way[rank]))
            assert most == min(v * m, 2 * (p - rank - 1) + (v - 1) * p + 1)


def test_gradients_of_weights_keep_microbatches_longer() -> None:
    """All ranks have as many as the first, which waits for the fewest."""
    orders = Orders(schedule=Schedule.ZERO_BUBBLE, ranks=4, microbatches=8)
    assert orders.under_way == (((4,),),) * 4


@pytest.mark.parametrize(
    ("schedule", "virtual", "many", "words"),
    [
        (Schedule.SIMPLE, 2, 4, "'simple' has one stage on each rank, and virtual_stages is 2"),
        (Schedule.INTERLEAVED, 1, 3, "needs a microbatch for each of 4 ranks, and there are 3"),
        (Schedule.INTERLEAVED, 2, 9, "9 microbatches cannot go in 2 equal rounds .* use 8"),
        (Schedule.ZERO_BUBBLE, 1, 9, "9 microbatches cannot go in 2 equal rounds .* use 8"),
    ],
)
def test_what_a_schedule_does_not_do_is_refused(
    schedule: Schedule, virtual: int, many: int, words: str
) -> None:
    with pytest.raises(ParallelError, match=words):
        Orders(schedule=schedule, ranks=4, microbatches=many, virtual_stages=virtual)
