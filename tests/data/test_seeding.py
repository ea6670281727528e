"""Random augmentation is seeded per sample, and the process's own states are left alone."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from launcher.data.repeatable import (
    RandomStates,
    generator_states,
    preserve_random_states,
    sample_seed,
    seed_everything,
)


def draws() -> tuple[object, ...]:
    """What comes next out of each global state."""
    torch = sys.modules.get("torch")
    return (
        random.random(),
        float(np.random.random()),
        float(torch.rand(())) if torch else None,
    )


def test_seeds_are_frozen_for_all_time() -> None:
    """The same augmentation under every version of this package."""
    assert sample_seed(7, 2, 10) == 8133852190349959662
    assert sample_seed(2**63 + 7, 2**40, 2**33) == 5920447076297380280


def test_every_sample_has_a_seed_of_its_own() -> None:
    seeds = {sample_seed(s, e, p) for s in (0, 1, 2**32) for e in range(4) for p in range(50)}
    assert len(seeds) == 3 * 4 * 50
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert max(seeds) > 2**63


def test_a_negative_seed_is_its_twos_complement() -> None:
    assert sample_seed(-1, 0, 0) == sample_seed(2**64 - 1, 0, 0)


def test_seeding_sets_all_states() -> None:
    pytest.importorskip("torch")
    with preserve_random_states():
        seed_everything(2**63 + 5)
        first = draws()
        assert all(draws()[index] != value for index, value in enumerate(first))
        seed_everything(2**63 + 5)
        assert draws() == first
        random_of_python, random_of_numpy, _ = first
        random.seed(2**63 + 5)
        np.random.seed(2**31 ^ 5)
        assert (random.random(), float(np.random.random())) == (random_of_python, random_of_numpy)


def test_a_kept_deviate_of_the_normal_distribution_is_forgotten() -> None:
    def deviates() -> tuple[float, float]:
        seed_everything(5)
        return random.gauss(0, 1), float(np.random.standard_normal())  # each keeps a second one

    with preserve_random_states():
        assert deviates() == deviates()


@pytest.mark.parametrize("bit", [0, 31, 32, 63])
def test_every_bit_of_a_seed_counts_for_numpy(bit: int) -> None:
    with preserve_random_states():
        seed_everything(1 << bit)
        one = np.random.random()
        seed_everything(0)
        assert np.random.random() != one


@pytest.mark.parametrize("fails", [False, True], ids=["ends well", "raises"])
def test_states_are_as_they_were_found(fails: bool) -> None:
    pytest.importorskip("torch")
    with preserve_random_states():
        seed_everything(1)
        expected = draws()
        seed_everything(1)
        try:
            with preserve_random_states():
                seed_everything(2)
                assert draws() != expected
                if fails:
                    raise KeyError
        except KeyError:
            assert fails
        assert draws() == expected


# Copies of the generators' memory ---------------------------------------------------------------


@pytest.mark.parametrize("by_memory", [True, False], ids=["as memory", "as objects"])
def test_states_come_back_with_all_that_they_hold(
    by_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words, places in them, and the normal deviates that both generators keep for later."""
    if not by_memory:
        monkeypatch.setattr(generator_states, "_python_place", lambda: None)
        monkeypatch.setattr(generator_states, "_numpy_place", lambda: None)

    def drawn() -> list[float]:
        numbers = [random.gauss(0, 1), *np.random.standard_normal(3), random.random()]
        return [*map(float, numbers), random.getrandbits(700), *np.random.bytes(3000)]

    with preserve_random_states():
        for before in range(5):
            seed_everything(before)
            random.gauss(0, 1)
            np.random.standard_normal(2 * before + 1)
            states = RandomStates.now()
            expected = drawn()
            seed_everything(99)
            drawn()
            states.restore()
            assert drawn() == expected
            assert RandomStates.now() != states


def test_another_generator_that_a_dataset_sets_does_not_stay() -> None:
    with preserve_random_states():
        np.random.seed(3)
        states = RandomStates.now()
        expected = np.random.random(4).tolist()
        states.restore()
        with preserve_random_states():
            np.random.set_bit_generator(np.random.PCG64(1))
            np.random.random(5)
        assert np.random.random(4).tolist() == expected
    assert type(np.random.get_bit_generator()) is np.random.MT19937


def test_a_scripts_own_kind_of_generator_is_kept() -> None:
    with preserve_random_states():
        before = np.random.get_bit_generator()
        try:
            np.random.set_bit_generator(np.random.PCG64(1))
            states = RandomStates.now()
            expected = np.random.random(4).tolist()
            states.restore()
            assert np.random.random(4).tolist() == expected
        finally:
            np.random.set_bit_generator(before)


def test_the_memory_is_found_in_this_interpreter() -> None:
    if sys.implementation.name != "cpython":
        pytest.skip("the generators of other interpreters are asked")
    assert generator_states._python_offset() is not None
    assert generator_states._deviate_offset() is not None
