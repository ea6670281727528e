"""Sampler objects are iterated in the script's process, once for each epoch."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from loader_arguments import loader_arguments

from launcher.data import DataLoader
from launcher.data.order import sample_order
from launcher.errors import DataError

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")

#: Sampler objects that are iterated: the loader's argument, the object, ids of an epoch.
DRAWN = {
    "weighted": ("sampler", lambda data: data.WeightedRandomSampler([0, 0, 1, 0], 3), {2}, 3),
    "subset": ("sampler", lambda data: data.SubsetRandomSampler([3, 1]), {1, 3}, 2),
    "list": ("sampler", lambda data: [0, 2, 0], {0, 2}, 3),
    "replacement": (
        "sampler",
        lambda data: data.RandomSampler(range(4), replacement=True, num_samples=9),
        {0, 1, 2, 3},
        9,
    ),
    "batches": (
        "batch_sampler",
        lambda data: data.BatchSampler(data.RandomSampler(range(4)), 3, drop_last=False),
        {0, 1, 2, 3},
        4,
    ),
}


class Indices:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


def ids_of(loader: DataLoader) -> list[int]:
    return [int(index) for batch in loader for index in batch]


@pytest.mark.parametrize("kind", DRAWN)
def test_other_samplers_are_iterated_once_per_epoch(kind: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    what, make, expected, count = DRAWN[kind]

    def loader(**options: Any) -> DataLoader:
        return DataLoader(
            Indices(), **loader_arguments(tensors=False, **{what: make(data)}, **options)
        )

    first = loader()
    epochs = [ids_of(first) for _ in range(3)]
    assert all(len(ids) == count and set(ids) <= expected for ids in epochs)
    second = loader()
    second.set_epoch(2)
    assert ids_of(second) == epochs[2]
    shares = [ids_of(loader(rank=rank, world_size=2)) for rank in range(2)]
    assert len(shares[0]) == len(shares[1]) or what == "batch_sampler"
    assert set(shares[0] + shares[1]) <= expected


def test_a_sampler_with_a_generator_gives_other_ids_in_each_epoch_and_keeps_its_state() -> None:
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(3)
    sampler = torch.utils.data.SubsetRandomSampler(range(4), generator=generator)
    state = generator.get_state()
    loader = DataLoader(Indices(), 2, sampler=sampler, tensors=False)
    epochs = [ids_of(loader) for _ in range(4)]
    assert len({tuple(ids) for ids in epochs}) > 1
    assert torch.equal(generator.get_state(), state)
    loader.set_epoch(1)
    batches = iter(loader)
    next(batches)
    resumed = DataLoader(Indices(), 2, sampler=sampler, tensors=False)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert ids_of(resumed) == epochs[1][2:]


def test_ids_that_ranks_cannot_share_evenly_are_refused_where_asked() -> None:
    options = {"world_size": 2, "rank": 0, "uneven": "error", "tensors": False}
    assert ids_of(DataLoader(Indices(), **loader_arguments(sampler=[3, 1], **options))) == [3]
    with pytest.raises(DataError, match="cannot be shared evenly by 2 ranks"):
        ids_of(DataLoader(Indices(), **loader_arguments(sampler=[3, 1, 0], **options)))


@pytest.mark.parametrize("kind", ["SequentialSampler", "RandomSampler", "DistributedSampler"])
def test_a_sampler_of_a_dataset_of_another_length_is_refused(kind: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    ranks = {"num_replicas": 1, "rank": 0} if kind == "DistributedSampler" else {}
    sampler = getattr(data, kind)(range(3), **ranks)
    with pytest.raises(DataError, match=r"made for 3 samples, and .*Indices.* has 4: .*range\(3\)"):
        ids_of(DataLoader(Indices(), sampler=sampler))
    assert ids_of(DataLoader(Indices(), sampler=range(3))) == [0, 1, 2]


@pytest.mark.parametrize(("what", "unit"), [("sampler", 0), ("batch_sampler", [0, 1])])
def test_a_sampler_that_never_ends_is_refused(
    what: str, unit: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless:
        def __iter__(self) -> Iterator[object]:
            return itertools.repeat(unit)

    monkeypatch.setitem(sample_order._MOST, what, 1000)
    with pytest.raises(DataError, match=rf"the {what} .*Endless\(...\) does not end: .* than 1000"):
        ids_of(DataLoader(Indices(), **{what: Endless()}))  # type: ignore[arg-type] # by name
    long = DataLoader(Indices(), **{what: [unit] * 1001})  # type: ignore[arg-type] # by name
    assert len(long) == 1001


def test_a_sampler_that_the_script_changes_is_followed() -> None:
    ids = [0, 1]
    loader = DataLoader(Indices(), sampler=ids, tensors=False)
    assert (len(loader), ids_of(loader)) == (2, [0, 1])
    ids.append(3)
    assert ids_of(loader) == [0, 1, 3]


class KeepsGenerators:
    """A sampler that draws from generators of its own, which are not torch's."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng()
        self.python = random.Random()

    def __iter__(self) -> Iterator[int]:
        yield from self.generator.integers(0, 4, 8)
        yield from self.python.choices(range(4), k=8)


def test_generators_that_a_sampler_keeps_follow_from_the_seed_and_the_epoch() -> None:
    sampler = KeepsGenerators()
    states = sampler.generator.bit_generator.state, sampler.python.getstate()
    loader = DataLoader(Indices(), 4, sampler=sampler, tensors=False)
    epochs = [ids_of(loader) for _ in range(3)]
    assert len({tuple(ids) for ids in epochs}) == 3
    assert (sampler.generator.bit_generator.state, sampler.python.getstate()) == states
    loader.set_epoch(1)
    next(iter(loader))
    resumed = DataLoader(Indices(), 4, sampler=KeepsGenerators(), tensors=False)
    resumed.load_state_dict(loader.state_dict())
    assert ids_of(resumed) == epochs[1][4:]
    other = DataLoader(Indices(), 4, sampler=sampler, seed=1, tensors=False)
    assert ids_of(other) != epochs[0]


class Cycled:
    """A sampler whose epoch scripts set, as a DistributedSampler's."""

    def __init__(self, num_replicas: int = 1, attribute: str = "epoch") -> None:
        self.attribute, self.num_replicas = attribute, num_replicas
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        setattr(self, self.attribute, epoch)

    def __iter__(self) -> Iterator[int]:
        return iter([getattr(self, self.attribute) % 4, 3])


@pytest.mark.parametrize("attribute", ["epoch", "_epoch"])
def test_a_sampler_is_told_the_epoch_and_can_set_it(attribute: str) -> None:
    sampler = Cycled(attribute=attribute)
    loader = DataLoader(Indices(), sampler=sampler, tensors=False)
    assert [ids_of(loader) for _ in range(2)] == [[0, 3], [1, 3]]
    assert ids_of(DataLoader(Indices(), sampler=sampler, tensors=False)) == [0, 3]
    sampler.set_epoch(2)
    assert ids_of(loader) == [2, 3]


def test_a_sampler_that_shares_among_ranks_itself_is_refused() -> None:
    with pytest.raises(DataError, match=r"Cycled shares .* num_replicas=2 .* num_replicas=1, rank"):
        DataLoader(Indices(), sampler=Cycled(num_replicas=2))
