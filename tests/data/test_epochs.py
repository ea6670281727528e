"""Datasets learn which epoch is read: `set_epoch`, and the epoch among their arguments."""

from __future__ import annotations

from collections.abc import Callable

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


def read_by_turns(first: object, second: object) -> list[list[int]]:
    """Read a batch of the first loader's epoch 0, then one of the second's epoch 3, and so on."""
    loaders = DataLoader(first), DataLoader(second)  # type: ignore[call-overload]
    loaders[1].set_epoch(3)
    turns = list(zip(*loaders, strict=True))
    return [[int(batch[0]) for batch in each] for each in zip(*turns, strict=True)]


@pytest.mark.parametrize("around", [lambda dataset: dataset, telling_datasets.Around])
def test_loaders_that_read_one_dataset_by_turns_have_their_own_epochs(
    around: Callable[[object], object],
) -> None:
    told = telling_datasets.Told()
    assert read_by_turns(around(told), around(told)) == [[0, 1, 2, 3], [30, 31, 32, 33]]


def test_functions_that_return_one_dataset_have_their_own_epochs() -> None:
    names = "telling_datasets:shared", "telling_datasets:around_shared"
    assert read_by_turns(*names) == [[0, 1, 2, 3], [30, 31, 32, 33]]


def test_a_dataset_is_told_an_epoch_once() -> None:
    told = telling_datasets.Told()
    list(DataLoader(told))
    assert told.calls == 1


def test_an_object_in_the_place_of_one_that_is_gone_is_told() -> None:
    """What is known of an object ends with it, since another may get its identity."""
    for _ in range(20):
        loader = DataLoader(telling_datasets.Told())
        assert [int(batch[0]) for batch in loader] == [0, 1, 2, 3]
        del loader


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
