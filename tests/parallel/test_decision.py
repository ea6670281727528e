"""What a partition's file predicts follows from what stands in it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from launcher.errors import ParallelError
from launcher.parallel.partitioning import PartitionQuestion, decide
from launcher.parallel.profiling import Profile, ProfileKind
from launcher.shared import (
    Fingerprint,
    Link,
    ModuleCost,
    Objective,
    Orders,
    PartitionFile,
    Schedule,
    simulate,
)

_FINGERPRINT = Fingerprint(parameters={}, calls=(), example=(), torch="")


def decided(question: PartitionQuestion, spread: float = 0.0) -> PartitionFile:
    draw = random.Random(3)
    modules = tuple(
        ModuleCost(
            name=f"layers.{number}",
            forward=draw.random(),
            backward=draw.random(),
            spread=spread,
            parameters=100,
            gradients=100,
            states=200,
            kept=draw.randrange(1000),
            passing=draw.randrange(50),
            crossing=40,
            block=200,
            returning=40,
        )
        for number in range(10)
    )
    profile = Profile(kind=ProfileKind.MEASURED, device="", runs=1, modules=modules, joints=())
    made = decide([profile], _FINGERPRINT, Link(latency=0.01, bandwidth=1e4), question)
    return PartitionFile.from_json(made.to_json())


def orders_of(found: PartitionFile) -> Orders:
    return Orders(
        schedule=Schedule(found.schedule),
        ranks=found.partitions,
        microbatches=found.microbatches,
        virtual_stages=found.virtual_stages,
    )


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize(
    ("schedule", "virtual"), [("interleaved", 2), ("zero_bubble", 1), ("zero_bubble", 2)]
)
def test_a_search_predicts_the_step_that_its_schedule_plays(
    schedule: str, virtual: int, objective: Objective
) -> None:
    found = decided(
        PartitionQuestion(
            partitions=2,
            microbatches=4,
            schedule=Schedule(schedule),
            virtual_stages=virtual,
            objective=objective,
        )
    )
    assert len(found.stages) == 2 * virtual == len(found.starts) + 1
    assert simulate(orders_of(found), found.stages).seconds == pytest.approx(found.step)
    assert found.gap == 0  # so few cuts are all tried
    now = next(each for each in found.choices if each.objective == objective.value)
    assert (now.step, now.partitions, now.microbatches) == (found.step, 2, 4)
    assert now.memory is not None
    assert now.memory >= max(each.memory for each in found.stages)  # a rank has several


def test_one_stage_on_each_rank_is_predicted_by_playing_the_schedule() -> None:
    found = decided(PartitionQuestion(partitions=3, microbatches=6))
    assert simulate(orders_of(found), found.stages).seconds == found.step
    assert [each.start for each in found.stages[1:]] == list(found.starts)
    assert sum(each.modules for each in found.stages) == len(found.modules)
    first, middle, last = (each.sent for each in found.stages)
    assert (first, middle, last) == (40, 80, 40)


def test_where_all_go_forward_first_the_slowest_of_each_way_counts() -> None:
    found = decided(PartitionQuestion(partitions=3, microbatches=6, schedule=Schedule.SIMPLE))
    there = [each.forward + each.sending / 2 for each in found.stages]
    back = [each.backward + each.sending / 2 for each in found.stages]
    expected = sum(there) + sum(back) + 5 * (max(there) + max(back))
    assert found.step == pytest.approx(expected)


@pytest.mark.parametrize("schedule", Schedule)
def test_replicas_that_share_stages_need_less_memory_and_more_time(schedule: Schedule) -> None:
    question = PartitionQuestion(partitions=2, microbatches=4, replicas=4, schedule=schedule)
    whole, shared = decided(question), decided(replace(question, shard_degree=4))
    assert shared.shard_degree == 4
    assert shared.modules == whole.modules
    assert max(each.memory for each in shared.stages) < max(each.memory for each in whole.stages)
    assert shared.step > whole.step
    edited = shared.to_json().replace('"shard_degree": 4', '"shard_degree": 3')
    with pytest.raises(ParallelError, match="shard_degree is 3, which does not divide the 4 rep"):
        PartitionFile.from_json(edited)


def test_the_spread_of_a_step_is_that_of_its_modules() -> None:
    question = PartitionQuestion(partitions=1, microbatches=4)
    assert decided(question).spread == 0
    # Ten modules in one stage, four times alike.
    assert decided(question, spread=0.1).spread == pytest.approx(4 * 0.1 * 10**0.5)


def repeats(*profiles: Sequence[float], updates: Sequence[float] = (0.0,) * 4) -> PartitionFile:
    """Decide by profiles of four modules, whose seconds they are, for two ranks."""
    found = [
        Profile(
            kind=ProfileKind.MEASURED,
            device="",
            runs=1,
            modules=tuple(
                ModuleCost(
                    name=f"layers.{n}", forward=each, backward=0.0, crossing=4, update=update
                )
                for n, (each, update) in enumerate(zip(seconds, updates, strict=True))
            ),
            joints=(),
        )
        for seconds in profiles
    ]
    question = PartitionQuestion(partitions=2, microbatches=4)
    return PartitionFile.from_json(decide(found, _FINGERPRINT, Link(), question).to_json())


def test_the_optimizers_step_is_the_last_of_a_rank_and_moves_cuts() -> None:
    plain = repeats((1.0, 1.0, 1.0, 1.0))
    even = repeats((1.0, 1.0, 1.0, 1.0), updates=(0.5, 0.5, 0.5, 0.5))
    uneven = repeats((1.0, 1.0, 1.0, 1.0), updates=(0.0, 0.0, 8.0, 8.0))

    assert even.step == plain.step + 1
    assert (plain.starts, uneven.starts) == (("layers.2",), ("layers.3",))
    assert [each.update for each in uneven.stages] == [8, 8]
    assert not {"update", "regret"} & set(re.findall(r"\w+", plain.to_json()))  # as it was before


def test_the_range_is_that_of_repeated_profiles_beyond_which_no_cuts_are_called_best() -> None:
    alike = repeats((1.0, 1.0, 1.0, 1.0), (1.1, 1.1, 1.1, 1.1), (1.2, 1.2, 1.2, 1.2))
    others = repeats((1.0, 1.0, 1.0, 1.0), (4.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0))

    assert alike.spread == pytest.approx(0.1 * alike.step / 1.1)
    assert (alike.regret, alike.runs) == (0, 3)
    assert (others.gap, others.starts) == (0, ("layers.2",))
    assert others.regret == pytest.approx((4 * 5 + 2) / (4 * 4 + 3) - 1)


def test_choices_leave_out_impossible_schedules_and_report_what_does_not_fit() -> None:
    plain = PartitionQuestion(partitions=2, microbatches=2)
    with_cap = PartitionQuestion(partitions=2, microbatches=2, memory_cap=8_000)
    numbers = {(each.partitions, each.microbatches) for each in decided(plain).choices}
    assert numbers == {(2, 2), (1, 2), (2, 4)}  # not one microbatch, nor four ranks for two
    alone = next(each for each in decided(with_cap).choices if each.partitions == 1)
    assert (alone.step, alone.memory) == (None, None)


def test_a_schedule_that_has_no_such_numbers_is_refused() -> None:
    with pytest.raises(ParallelError, match="needs a microbatch for each of 4 ranks"):
        PartitionQuestion(partitions=4, microbatches=2)
