"""Datasets learn which epoch is read: `set_epoch`, and the epoch among their arguments."""

from __future__ import annotations

import pytest

pytest.importorskip("telling_datasets")

import telling_datasets

from launcher.data import EPOCH, DataLoader
from launcher.errors import DataError

TWO_EPOCHS = [[0, 1, 2, 3], [10, 11, 12, 13]]


def read(name: str, **arguments: object) -> list[list[int]]:
    loader = DataLoader(f"telling_datasets:{name}", **arguments)  # type: ignore[arg-type]
    return [[int(batch[0]) for batch in loader] for _ in range(2)]


@pytest.mark.parametrize("name", ["Told", "ToldInOrder", "wrapped", "wrapped_in_list", "passed_on"])
def test_a_dataset_is_told_the_epoch(name: str) -> None:
    assert read(name) == TWO_EPOCHS


def test_each_shard_is_told_the_epoch() -> None:
    assert [sorted(epoch) for epoch in read("ToldInOrder", shards=2)] == TWO_EPOCHS


def test_a_dataset_object_is_told_the_epoch() -> None:
    loader = DataLoader(telling_datasets.Told())
    loader.set_epoch(7)
    assert [int(batch[0]) for batch in loader] == [70, 71, 72, 73]


def test_a_sampler_is_told_the_epoch() -> None:
    epochs = read("Told", sampler="telling_datasets:EpochsSampler")
    assert epochs == [[0, 1, 2, 3], [11, 12, 13, 10]]


@pytest.mark.parametrize("name", ["OfEpoch", "lines_of_epoch"])
def test_the_epoch_may_be_an_argument(name: str) -> None:
    assert read(name, dataset_args={"epoch": EPOCH}) == TWO_EPOCHS


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_takes_the_epoch_is_made_once_for_each(workers: int) -> None:
    """In the script's process, for its forks, too."""
    telling_datasets.BUILT.clear()
    arguments = {"epoch": EPOCH, "scale": 5}
    loader = DataLoader(telling_datasets.OfEpoch, dataset_args=arguments, workers=workers)
    assert [[int(batch[0]) for batch in loader] for _ in range(3)][2] == [10, 11, 12, 13]
    assert telling_datasets.BUILT == [0, 1, 2]


def test_a_set_epoch_that_raises_is_named() -> None:
    with pytest.raises(
        DataError, match=r"set_epoch\(0\) of a Refusing raised KeyError.*no epoch 0"
    ):
        read("Refusing")
