"""What a script changes after the loader was made: it is followed as in torch, or refused."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from loader_arguments import loader_arguments

from launcher.data import DataLoader
from launcher.errors import DataError

torch = pytest.importorskip("torch")
torch_data = pytest.importorskip("torch.utils.data")


class Numbers:
    """Ids, to which a level is added, by a transform if there is one."""

    level = 0
    transform: Callable[[int], int] | None = None

    def __init__(self, items: list[int] | None = None) -> None:
        self.items = list(range(8)) if items is None else items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> int:
        item = self.items[index] + self.level
        return item if self.transform is None else self.transform(item)


def read(loader: Any) -> list[list[int]]:
    return [[int(number) for number in batch] for batch in loader]


# The dataset -----------------------------------------------------------------------------------


def change_level(loader: Any) -> None:
    loader.dataset.level = 100


def change_transform(loader: Any) -> None:
    loader.dataset.transform = lambda item: item * 3


def append(loader: Any) -> None:
    loader.dataset.items.append(50)


def shorten(loader: Any) -> None:
    del loader.dataset.items[5:]


@pytest.mark.parametrize("change", [change_level, change_transform, append, shorten])
@pytest.mark.parametrize("workers", [0, 2])
def test_changes_of_a_dataset_object_are_read_in_the_next_epoch(
    change: Callable[[Any], None], workers: int
) -> None:
    ours = DataLoader(Numbers(), batch_size=3, workers=workers, name=f"{change.__name__} {workers}")
    torchs = torch_data.DataLoader(Numbers(), batch_size=3)
    for loader in (ours, torchs):
        read(loader)
        change(loader)
    assert len(ours) == len(torchs)
    assert read(ours) == read(torchs)


def test_changes_below_a_subset_are_read() -> None:
    loaders = [
        kind(torch_data.Subset(Numbers(), [1, 2, 3]), batch_size=3)
        for kind in (DataLoader, torch_data.DataLoader)
    ]
    for loader in loaders:
        read(loader)
        loader.dataset.dataset.level = 7
        loader.dataset.indices.append(0)
    assert read(loaders[0]) == read(loaders[1]) == [[8, 9, 10], [7]]


class Drawing:
    """A transform with a generator of its own."""

    def __init__(self) -> None:
        self.generator = random.Random(3)

    def __call__(self, item: int) -> int:
        return self.generator.randrange(10**6)


def test_the_generator_of_a_transform_that_is_assigned_is_seeded_for_each_sample() -> None:
    found = []
    for workers in (0, 2):
        loader = DataLoader(Numbers(), batch_size=1, workers=workers, name=f"assigned {workers}")
        read(loader)
        loader.dataset.transform = Drawing()
        found.append(read(loader))
    assert found[0] == found[1]


@pytest.fixture
def served(write_module: Callable[[str], str]) -> DataLoader:
    module = write_module("def numbers():\n    return list(range(8))\n")
    return DataLoader(f"{module}:numbers", batch_size=4, shuffle=True)


@pytest.mark.parametrize("place", ["dataset", "sampler", "batch_sampler"])
def test_attributes_are_not_set_on_what_is_elsewhere(served: DataLoader, place: str) -> None:
    for name in ("level", "_level"):
        with pytest.raises(DataError, match=rf"loader\.{place}\.{name} = 7 would change nothing"):
            setattr(getattr(served, place), name, 7)
    with pytest.raises(AttributeError, match="level"):
        object.__setattr__(getattr(served, place), "level", 7)
    with pytest.raises((AttributeError, TypeError), match="__dict__"):
        vars(getattr(served, place))["level"] = 7
    assert not hasattr(getattr(served, place), "level")
    with pytest.raises(AttributeError, match=r"loader\.dataset has no dataset"):
        served.dataset.dataset.level = 7


def test_arguments_are_refused_once_the_loader_is_made(served: DataLoader) -> None:
    for name in ("shuffle", "seed", "on_error", "verify", "batch_size", "samples"):
        with pytest.raises(DataError, match=rf"{name} is assigned to the loader"):
            setattr(served, name, 1)
    served.title = "train"  # type: ignore[attr-defined] # the script's own, as in torch
    assert served.title == "train"  # type: ignore[attr-defined] # as above


# The sampler -----------------------------------------------------------------------------------


def test_a_sampler_that_was_given_is_the_loaders_sampler() -> None:
    sampler = torch_data.DistributedSampler(Numbers(), 2, 0)
    assert DataLoader(Numbers(), sampler=sampler).sampler is sampler
    batches = torch_data.BatchSampler(range(8), 3, drop_last=False)
    assert DataLoader(Numbers(), batch_sampler=batches).batch_sampler is batches


@pytest.mark.parametrize("peeks", [0, 1, 2])
@pytest.mark.parametrize("set_epochs", [(0, 1, 2), (1, 1, 0), (3, 2, 2)])
def test_an_epoch_that_is_set_on_the_sampler_is_read(
    peeks: int, set_epochs: tuple[int, ...]
) -> None:
    def orders(peeks: int, *epochs: int) -> list[list[int]]:
        sampler = torch_data.DistributedSampler(Numbers(), 1, 0)
        loader = DataLoader(Numbers(), batch_size=8, sampler=sampler, name=f"set {next(_names)}")
        for _ in range(peeks):
            next(iter(loader))
        found = []
        for epoch in epochs:
            sampler.set_epoch(epoch)
            found += read(loader)
        return found

    expected = [orders(0, epoch)[0] for epoch in set_epochs]
    assert orders(peeks, *set_epochs) == expected
    assert len({str(order) for order in expected}) == len(set(set_epochs))


_names = iter(range(10**6))


def test_an_epoch_that_was_set_before_the_loader_was_made_is_read() -> None:
    found = []
    for _ in range(2):
        sampler = torch_data.DistributedSampler(Numbers(), 1, 0)
        sampler.set_epoch(4)
        loader = DataLoader(Numbers(), batch_size=8, sampler=sampler)
        loader.set_epoch(4 if found else 0)
        found.append((read(DataLoader(Numbers(), batch_size=8, sampler=sampler)), read(loader)))
    assert found[0][0] == found[1][0] == found[1][1] != found[0][1]


def test_one_sampler_sets_the_epoch_of_loaders_made_anew() -> None:
    sampler = torch_data.DistributedSampler(Numbers(), 1, 0)
    orders = []
    for epoch in (0, 1, 1, 0):
        sampler.set_epoch(epoch)
        orders += read(DataLoader(Numbers(), batch_size=8, sampler=sampler, name="anew"))
    assert orders[0] == orders[3] != orders[1] == orders[2]


def test_a_state_that_is_loaded_wins_over_the_epoch_that_was_set_before() -> None:
    sampler = torch_data.DistributedSampler(Numbers(), 1, 0)
    loader = DataLoader(Numbers(), batch_size=2, sampler=sampler, name="resumed")
    whole = [read(loader) for _ in range(2)][1]
    loader.set_epoch(1)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    sampler.set_epoch(0)
    other = DataLoader(Numbers(), batch_size=2, sampler=sampler, name="resumed")
    other.load_state_dict(state)
    sampler.set_epoch(1)  # the state's, which stays
    assert read(other) == whole[1:]


def test_attributes_of_a_sampler_are_followed() -> None:
    sampler = torch_data.DistributedSampler(Numbers(), 2, 0)
    loader = DataLoader(Numbers(), batch_size=4, sampler=sampler)
    first = read(loader)
    loader.sampler.shuffle = False
    assert read(loader) == [[0, 1, 2, 3]]
    loader.sampler.rank = 1
    assert read(loader) == [[4, 5, 6, 7]]
    loader.sampler.shuffle, loader.sampler.rank, loader.sampler.seed = True, 0, 9
    loader.set_epoch(0)
    assert read(loader) != first
    loader.sampler.seed = 0
    loader.set_epoch(0)
    assert read(loader) == first


@pytest.mark.parametrize("kind", ["loader", "sampler", "drawn"])
def test_a_generator_that_is_seeded_anew_is_followed(kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    options: dict[str, Any] = {"generator": generator, "shuffle": True}
    if kind == "sampler":
        options = {"sampler": torch_data.RandomSampler(Numbers(), generator=generator)}
    if kind == "drawn":
        options = {"sampler": torch_data.SubsetRandomSampler(range(8), generator=generator)}
    loader = DataLoader(
        Numbers(), **loader_arguments(batch_size=8, name=f"seeded {kind}", **options)
    )
    orders = {}
    for seed in (1, 2, 1):
        generator.manual_seed(seed)
        loader.set_epoch(0)
        orders.setdefault(seed, []).append(read(loader))
    assert orders[1][0] == orders[1][1] != orders[2][0]


def test_a_generator_whose_state_is_set_again_repeats_the_epoch_that_began_with_it() -> None:
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(Numbers(), batch_size=8, shuffle=True, generator=generator)
    states, orders = [], []
    for _ in range(3):
        states.append(generator.get_state())
        orders.append([batch.tolist() for batch in loader])
    for epoch in (1, 0, 2):
        generator.set_state(states[epoch])
        assert [batch.tolist() for batch in loader] == orders[epoch]
    assert [batch.tolist() for batch in loader] not in orders


def test_each_epoch_of_a_generator_that_is_seeded_before_it_is_the_same() -> None:
    generator = torch.Generator()
    loader = DataLoader(Numbers(), batch_size=8, shuffle=True, generator=generator)
    orders = []
    for seed in (5, 5, 6, 5):
        generator.manual_seed(seed)
        orders += read(loader)
    orders += read(loader)
    assert orders[0] == orders[1] == orders[3] != orders[2]
    assert orders[4] != orders[0]  # the next epoch of the same seed


# A loader made anew ----------------------------------------------------------------------------


def warned(make: Callable[[], list[Any]]) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        make()
    return [str(each.message) for each in told if "begins epoch 0" in str(each.message)]


def loader(name: str, **options: Any) -> DataLoader:
    return DataLoader(
        Numbers(), **loader_arguments(batch_size=4, shuffle=True, name=name, **options)
    )


def set_to(loader: DataLoader, epoch: int) -> DataLoader:
    loader.set_epoch(epoch)
    return loader


def test_a_loader_that_is_made_anew_in_each_epoch_is_named_once() -> None:
    (text,) = warned(lambda: [read(loader("each epoch")) for _ in range(4)])
    assert "write loader.set_epoch(epoch)" in text
    (text,) = warned(lambda: [next(iter(loader("left early"))) for _ in range(4)])
    assert "another loader of left early" in text


def test_other_loaders_are_not_named() -> None:
    once = loader("once")
    assert warned(lambda: [read(once) for _ in range(3)]) == []
    assert warned(lambda: [next(iter(loader("a look"))), read(loader("a look"))]) == []
    assert warned(lambda: [read(set_to(loader("set"), epoch)) for epoch in (0, 1, 2)]) == []
    assert warned(lambda: [read(set_to(loader("again"), 0)) for _ in range(3)]) == []
    assert warned(lambda: [read(loader("seeds", seed=seed)) for seed in range(3)]) == []
    plain = (DataLoader(Numbers(), batch_size=4, name="val") for _ in range(3))
    assert warned(lambda: [read(each) for each in plain]) == []

    def runs() -> list[Any]:
        made = [loader("two runs") for _ in range(2)]
        return [read(each) for each in made for _ in range(2)]

    assert warned(runs) == []
