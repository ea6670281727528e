"""The loader as training frameworks read it: its attributes, and epochs that they set."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from loader_arguments import loader_arguments
from programs import PIPELINE

from launcher.data import DataLoader
from launcher.errors import DataError

STREAM = """
class Numbers:
    def __iter__(self):
        return iter(range(20))

class Counted(Numbers):
    def __len__(self):
        return 20
"""


@pytest.fixture(autouse=True)
def module(write_module: Callable[[str], str]) -> str:
    return write_module(PIPELINE + STREAM)


def loader(module: str, dataset: str = "train_set", **arguments: object) -> DataLoader:
    options = {"batch_size": 8, "tensors": False, **arguments}
    return DataLoader(f"{module}:{dataset}", **loader_arguments(**options))  # type: ignore[arg-type]


def labels(batches: object) -> list[list[int]]:
    return [batch["label"].tolist() for batch in batches]  # type: ignore[attr-defined]


def epochs(module: str, count: int) -> list[list[list[int]]]:
    reading = loader(module, shuffle=True)
    return [labels(reading) for _ in range(count)]


def test_attributes_are_those_of_torch(module: str) -> None:
    reading = loader(module, drop_last=True, rank=1, world_size=2)
    assert reading.batch_size == 8
    assert reading.drop_last
    assert len(reading.dataset) == len(reading.sampler) == 103
    assert len(reading.batch_sampler) == len(reading) == 6


def test_a_stream_without_a_length_has_none_as_a_dataset(module: str) -> None:
    assert len(loader(module, "Counted").dataset) == 20
    with pytest.raises(TypeError, match="no __len__"):
        len(loader(module, "Numbers").dataset)


def test_samples_are_read_through_the_loader_alone(module: str) -> None:
    reading = loader(module)
    with pytest.raises(DataError, match="give the framework the loader, not its dataset"):
        reading.dataset[0]
    for indices in (reading.sampler, reading.batch_sampler):
        with pytest.raises(DataError, match=r"load_state_dict\(\), which skips what was read"):
            next(iter(indices))


def test_an_epoch_that_is_set_after_iter_is_read_by_it(module: str) -> None:
    """Lightning calls iter() first, and sets the epoch then; torch's samplers follow it."""
    _, second, third = epochs(module, 3)
    reading = loader(module, shuffle=True)
    batches = iter(reading)
    reading.sampler.set_epoch(1)
    assert labels(batches) == second
    assert labels(reading) == third


def test_an_epoch_that_is_set_does_not_end_the_current_for(module: str) -> None:
    first, _, third = epochs(module, 3)
    reading = loader(module, shuffle=True)
    batches = iter(reading)
    begun = next(batches)["label"].tolist()
    reading.sampler.set_epoch(2)
    assert [begun, *labels(batches)] == first
    assert labels(reading) == third


def test_a_look_at_some_batches_loses_no_epoch(module: str) -> None:
    """A sanity check reads a few batches of an epoch, which is then read from its start."""
    first, second = epochs(module, 2)
    reading = loader(module, shuffle=True)
    reading.sampler.set_epoch(0)
    batches = iter(reading)
    next(batches)
    reading.sampler.set_epoch(0)
    assert labels(reading) == first
    reading.batch_sampler.sampler.set_epoch(1)
    assert labels(reading) == second


def test_an_iterator_that_returned_nothing_has_read_no_epoch(module: str) -> None:
    """Lightning calls iter() once only to see whether it works."""
    first, second = epochs(module, 2)
    reading = loader(module, shuffle=True)
    iter(reading)
    assert len(reading.dataset) == 103
    assert [labels(iter(reading)), labels(reading)] == [first, second]


def test_a_resume_point_stays_when_its_epoch_is_set(module: str) -> None:
    _, second = epochs(module, 2)
    before, after = loader(module, shuffle=True), loader(module, shuffle=True)
    before.set_epoch(1)
    batches = iter(before)
    for _ in range(5):
        next(batches)
    after.load_state_dict(before.state_dict())
    remaining = iter(after)
    after.sampler.set_epoch(1)
    assert labels(remaining) == second[5:]


@pytest.mark.parametrize("epoch", [-1, 0.5, "1"])
def test_an_epoch_is_a_whole_number(module: str, epoch: object) -> None:
    with pytest.raises(DataError, match="an epoch is"):
        loader(module).sampler.set_epoch(epoch)  # type: ignore[arg-type]


class GradientState:
    """Accelerate's, as far as a loader writes to it."""

    loaders: list[object] = []  # noqa: RUF012 - one for all, as Accelerate's

    def _add_dataloader(self, loader: object) -> None:
        self.loaders.append(loader)

    def _remove_dataloader(self, loader: object) -> None:
        self.loaders.remove(loader)


def load_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SimpleNamespace(GradientState=GradientState, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "accelerate.state", state)


@pytest.mark.parametrize(
    ("arguments", "remainder"),
    [
        ({"world_size": 1}, 103 % 8),
        ({"rank": 0, "world_size": 2}, 103 - 6 * 16),
        ({"rank": 1, "world_size": 2}, 103 - 6 * 16),
        ({"rank": 1, "world_size": 2, "uneven": "drop"}, 6),
        ({"rank": 1, "world_size": 2, "drop_last": True}, 0),
    ],
)
def test_accelerate_gets_the_last_step_and_its_padding(
    module: str, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object], remainder: int
) -> None:
    load_accelerate(monkeypatch)
    reading = loader(module, **arguments)
    ends = []
    for _ in reading:
        (current,) = GradientState.loaders
        ends.append(current.end_of_dataloader)  # type: ignore[attr-defined]
        assert current.remainder == remainder  # type: ignore[attr-defined]
    assert ends == [False] * (len(reading) - 1) + [True]
    assert GradientState.loaders == []


def test_accelerate_is_notified_when_reading_is_abandoned(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_accelerate(monkeypatch)
    batches = iter(loader(module))
    next(batches)
    assert len(GradientState.loaders) == 1
    del batches
    assert GradientState.loaders == []
