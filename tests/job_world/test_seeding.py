"""Random augmentation is seeded per sample, and the process's own states are left alone."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from launcher.data.order.seeding import preserve_random_states, sample_seed, seed_everything


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
