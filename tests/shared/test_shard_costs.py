"""The costs of stages that replicas share, by arithmetic: against sums that were made by hand."""

from __future__ import annotations

import pytest

from launcher.shared import CostedModel, Joint, Link, ModuleCost, RankCosts, Sharing, StageState


def module(name: str, **changes: int) -> ModuleCost:
    sizes = {"parameters": 1000, "gradients": 1000, "states": 2000, "passing": 10, **changes}
    return ModuleCost(name=name, forward=1.0, backward=2.0, **sizes)


def model(*modules: ModuleCost, joints: tuple[Joint, ...] = ()) -> CostedModel:
    link = Link(latency=0.5, bandwidth=1000)
    return RankCosts(modules=modules, joints=joints, ties=(), link=link, replicas=4)


def test_nothing_shared_is_the_model_itself() -> None:
    whole = model(module("a"))
    assert Sharing.of_schedule(1, "interleaved", 4).per_rank(whole) is whole


def test_a_module_in_a_block_has_its_share_and_two_blocks_while_it_runs() -> None:
    shared = Sharing.of_schedule(4, "interleaved", 4).per_rank(model(module("a", block=2000)))
    (found,) = shared.modules
    assert (found.parameters, found.gradients, found.states) == (250, 1000, 500)
    assert found.passing == 10 + 2 * 2000
    # Half of the messages of its block, of three steps each, and three quarters of the bytes.
    gather = 0.5 * 3 * 0.5 + 0.75
    assert (found.forward, found.backward) == pytest.approx((1 + gather, 2 + gather))


def test_a_module_in_no_block_is_gathered_with_its_stage() -> None:
    shared = Sharing.of_schedule(4, "simple", 4).per_rank(model(module("a")))
    (found,) = shared.modules
    assert (found.parameters, found.passing) == (250 + 1000, 10)
    assert found.held == 250 + 1000 + 1000 + 500


def test_blocks_that_stay_gathered_are_gathered_once_for_all_microbatches() -> None:
    shared = Sharing.of_schedule(4, "zero_bubble", 4).per_rank(model(module("a", block=1000)))
    (found,) = shared.modules
    assert (found.parameters, found.passing) == (250 + 1000, 10)
    gather = 3 * 0.5 + 0.75
    assert (found.forward, found.backward) == pytest.approx((1 + gather / 4, 2))


def test_what_two_modules_have_in_common_is_shared_like_the_first() -> None:
    modules = (module("a", block=1000), module("b", block=1000))
    whole = model(*modules, joints=(Joint(first=0, second=1, held=-400, kept=7),))
    (joint,) = Sharing.of_schedule(4, "interleaved", 4).per_rank(whole).joints
    assert joint == Joint(first=0, second=1, held=-175, kept=7)  # 1750 of 4000 bytes


def test_no_more_than_the_whole_stage_is_gathered() -> None:
    stage = StageState(parameters=1000, gradients=1000, states=2001, largest=600, rest=100)
    found = stage.on_rank(2)
    assert (found.parameters, found.gradients, found.states) == (500 + 1000, 1000, 1001)
    assert stage.on_rank(2, accumulates=False).gradients == 500
    assert stage.on_rank(1) is stage
