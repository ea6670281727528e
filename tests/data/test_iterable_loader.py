"""The loader of iterable datasets in a plain process: epochs, steps, state, and what is refused."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from itertools import chain

import pytest
from loader_arguments import loader_arguments

from launcher.data import DataLoader
from launcher.errors import DataError
from launcher.shared import parse_event

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

STREAM = """
import random
from launcher.data import shard

class Numbers:
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        index, shards = shard()
        for number in range(index, self.count, shards):
            yield {"id": number, "coin": random.random()}

class Counted(Numbers):
    def __len__(self):
        return self.count

def train_set():
    return Numbers(23)

def counted():
    return Counted(24)

def nothing():
    return Numbers(0)

def pairs(samples):
    return [sample["id"] for sample in samples], random.random()

def map_style():
    return [1, 2, 3]
"""


@pytest.fixture(autouse=True)
def module(write_module: Callable[[str], str]) -> str:
    return write_module(STREAM)


def loader(module: str, dataset: str = "train_set", **arguments: object) -> DataLoader:
    options = {"batch_size": 4, "tensors": False, **arguments}
    return DataLoader(f"{module}:{dataset}", **loader_arguments(**options))  # type: ignore[arg-type]


def ids(batches: object) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]  # type: ignore[attr-defined]


def content(batches: object) -> list[object]:
    return [(b["id"].tolist(), b["coin"].tolist()) for b in batches]  # type: ignore[attr-defined]


def test_one_shard_is_read_to_its_end(module: str) -> None:
    assert list(chain(*ids(loader(module)))) == list(range(23))
    assert len(ids(loader(module, drop_last=True))) == 5
    with pytest.raises(TypeError, match="is iterable and has no __len__"):
        len(loader(module))


def test_shards_are_read_in_turn(module: str) -> None:
    assert ids(loader(module, shards=3, batch_size=3)) == [
        *[[0, 3, 6], [1, 4, 7], [2, 5, 8]],
        *[[9, 12, 15], [10, 13, 16], [11, 14, 17]],
        *[[18, 21], [19, 22], [20]],
    ]


def test_ranks_share_the_shards_and_take_the_same_steps(module: str) -> None:
    arguments = {"shards": 4, "world_size": 2}
    for dataset, steps in (("train_set", 4), ("counted", None)):
        shares = [loader(module, dataset, rank=rank, steps=steps, **arguments) for rank in (0, 1)]
        read = [ids(share) for share in shares]
        assert [len(share) for share in shares] == [len(batches) for batches in read] == [4, 4]
        count = 23 if dataset == "train_set" else 24
        assert sorted(chain(*chain(*read))) == list(range(count))


def test_each_epoch_draws_anew_and_is_the_same_again(module: str) -> None:
    reading = loader(module)
    first, second = content(reading), content(reading)
    assert first != second
    reading.set_epoch(0)
    assert content(reading) == first
    random.seed(5)
    before = random.getstate()
    assert content(loader(module)) == first
    assert random.getstate() == before


def test_samples_come_one_by_one_or_as_a_function_makes_them(module: str) -> None:
    one_by_one = list(loader(module, batch_size=None))
    assert [sample["id"] for sample in one_by_one] == list(range(23))
    made = loader(module, collate_fn=f"{module}:pairs")
    first, again = list(made), list(loader(module, collate_fn=f"{module}:pairs"))
    assert [numbers for numbers, _ in first] == ids(loader(module))
    assert first == again
    assert len({coin for _, coin in first}) == 6


def test_data_that_end_before_the_steps_begin_anew_and_are_counted(
    module: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    read = content(loader(module, steps=8))
    assert [numbers for numbers, _ in read[6:]] == [numbers for numbers, _ in read[:2]]
    assert read[6:] != read[:2]  # what is drawn is not the same again
    events = [parse_event(line) for line in caplog.messages]
    ((_, fields),) = [event for event in events if event and event[0] == "data_epoch"]
    assert (fields["steps"], fields["samples"], fields["pads"]) == (8, 31, 8)
    with pytest.raises(DataError, match=r"ended after 6 steps of rank 0, .* steps=8"):
        list(loader(module, steps=8, uneven="error"))


@pytest.mark.parametrize("shards", [1, 3])
def test_a_state_taken_anywhere_resumes_there(module: str, shards: int) -> None:
    options = {"shards": shards, "steps": 10}
    reading = loader(module, **options)
    taken = [(content([batch]), reading.state_dict()) for batch in reading]
    second = content(loader_at(module, 1, **options))
    for stop in (1, 4, 6, 7, 9):
        resumed = loader(module, **options)
        resumed.load_state_dict(taken[stop - 1][1])
        assert content(resumed) == list(chain(*(batch for batch, _ in taken[stop:])))
        assert content(resumed) == second


def loader_at(module: str, epoch: int, **options: object) -> DataLoader:
    reading = loader(module, **options)
    reading.set_epoch(epoch)
    return reading


def test_the_state_at_the_end_of_an_epoch_is_the_start_of_the_next(module: str) -> None:
    for options in ({}, {"steps": 3}):
        reading = loader(module, **options)
        list(reading)
        resumed = loader(module)
        resumed.load_state_dict(reading.state_dict())
        assert content(resumed) == content(loader_at(module, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shards": 3}, r"taken with shards=2, and this loader has shards=3"),
        ({"batch_size": 2}, r"taken with batch_size=4, and this loader has batch_size=2"),
        ({"world_size": 2, "rank": 0}, r"taken with world=1, and this loader has world=2"),
    ],
)
def test_a_state_of_other_steps_is_refused(
    module: str, change: dict[str, object], message: str
) -> None:
    options = {"shards": 2, "steps": 5}
    reading = loader(module, **options)
    next(iter(reading))
    with pytest.raises(DataError, match=message):
        loader(module, **{**options, **change}).load_state_dict(reading.state_dict())


@pytest.mark.parametrize(
    ("dataset", "arguments", "message"),
    [
        ("train_set", {"on_error": "skip"}, "an iterator that has raised cannot continue"),
        ("counted", {"world_size": 2, "rank": 0}, "shards=1 by 2 ranks: .* at least 2"),
        ("map_style", {"shards": 2}, "is map-style: shards=, steps="),
        ("map_style", {"steps": 2}, "is map-style: shards=, steps="),
    ],
)
def test_what_does_not_fit_the_dataset_is_refused(
    module: str, dataset: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        list(loader(module, dataset, **arguments))


def test_a_dataset_without_samples_is_an_epoch_without_steps(module: str) -> None:
    assert list(loader(module, "nothing", allow_empty=True)) == []
