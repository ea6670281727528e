"""Dataset code sees one thread everywhere, and a loader that gives up its guarantee by name."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from launcher.data import DataLoader
from launcher.data.order import single_thread
from launcher.data.order.single_thread import OneThread
from launcher.errors import DataError

torch = pytest.importorskip("torch")


def counts() -> list[int]:
    """Threads of each library of this process."""
    threads = OneThread()
    with threads:
        pass
    return [get() for get, _ in threads._libraries]


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


class Seen:
    """Samples are the numbers of threads that dataset code sees."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> list[int]:
        return counts()


class SeenStream:
    def __iter__(self) -> Iterator[list[int]]:
        yield counts()


def collate_counts(samples: list[Any]) -> list[Any]:
    return [*samples, counts()]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dataset", [Seen, SeenStream])
def test_libraries_use_one_thread_while_a_dataset_is_read(dataset: Callable[[], Any]) -> None:
    before = counts()
    assert before[-1] == 2
    for batch in DataLoader(dataset(), collate_fn=collate_counts):
        assert {count for each in batch for count in each} == {1}
        assert counts() == before


@pytest.mark.usefixtures("two_threads")
def test_threads_come_back_after_an_error() -> None:
    class Failing(Seen):
        def __getitem__(self, index: int) -> list[int]:
            raise KeyError

    with pytest.raises(KeyError):
        list(DataLoader(Failing()))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("before", [1, 2])
@pytest.mark.usefixtures("two_threads")
def test_threads_come_back_after_a_dataset_that_sets_them(before: int) -> None:
    class Setting(Seen):
        def __getitem__(self, index: int) -> list[int]:
            torch.set_num_threads(3)
            return [index]

    torch.set_num_threads(before)
    for _ in DataLoader(Setting()):
        assert torch.get_num_threads() == before


class Large(Seen):
    def __getitem__(self, index: int) -> Any:
        assert torch.get_num_threads() == 1
        return torch.full((1 << 21,), float(index))


@pytest.mark.usefixtures("two_threads")
def test_large_samples_are_stacked_with_the_scripts_threads(monkeypatch: Any) -> None:
    used, stack = [], torch.stack
    monkeypatch.setattr(torch, "stack", lambda x: used.append(torch.get_num_threads()) or stack(x))
    batches = [batch[:, -1].tolist() for batch in DataLoader(Large(), batch_size=2, verify=0)]
    assert batches == [[0, 1], [2]]
    assert used == [2, 2]


@pytest.mark.usefixtures("two_threads")
def test_forks_stack_large_samples_with_one_thread() -> None:
    """OpenMP would wait for threads of the parent, which has just used some."""
    alone = list(DataLoader(Large(), batch_size=3))
    forked = list(DataLoader(Large(), batch_size=3, workers=2))
    assert torch.equal(alone[0], forked[0])


@pytest.mark.usefixtures("two_threads")
def test_bits_that_depend_on_threads_are_those_of_one_thread() -> None:
    values = np.random.RandomState(0).rand(1 << 20).astype(np.float32)

    class Normalised(Seen):
        def __getitem__(self, index: int) -> Any:
            x = torch.from_numpy(values)
            return (x - x.mean()) / x.std()

    first = next(iter(DataLoader(Normalised())))[0]
    torch.set_num_threads(1)
    assert torch.equal(first, Normalised()[0])


class Late:
    """Samples are the threads of a library that the first of them loads."""

    library = SimpleNamespace(threads=3)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        sys.modules["loaded_late"] = ModuleType("loaded_late")
        return int(self.library.threads)


class LateStream:
    def __iter__(self) -> Iterator[int]:
        yield from map(Late().__getitem__, range(2))


def libraries_of_late() -> Iterator[tuple[Callable[[], int], Callable[[int], object]]]:
    if "loaded_late" in sys.modules:
        yield lambda: Late.library.threads, lambda count: setattr(Late.library, "threads", count)


@pytest.mark.parametrize(
    ("dataset", "workers"),
    [(Late, 0), (LateStream, 0), (Late, 1)],
    ids=["script", "stream", "fork"],
)
def test_a_library_that_is_loaded_late_uses_one_thread_from_its_first_batch_on(
    dataset: Callable[[], Any], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "loaded_late", ModuleType("loaded_late"))
    del sys.modules["loaded_late"]
    monkeypatch.setattr(single_thread, "_blas_libraries", libraries_of_late)
    monkeypatch.setattr(Late.library, "threads", 3)
    loader = DataLoader(dataset(), workers=workers, verify=0)
    assert [int(batch[0]) for batch in loader] == [1, 1]
    assert Late.library.threads == 3


# seeding="worker" ------------------------------------------------------------------------------


class Drawing:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(()))


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.mark.usefixtures("two_threads")
def test_seeding_by_worker_draws_from_the_scripts_generators_as_torch_does() -> None:
    def read(make: Callable[..., Any], **arguments: Any) -> list[Any]:
        seed_all(1)
        loader = make(Drawing(), batch_size=2, **arguments)
        return [[part.tolist() for part in batch] for batch in loader]

    seed_all(1)
    plain = [Drawing()[index] for index in range(4)]
    ours = read(DataLoader, seeding="worker", tensors=True)
    assert [tuple(sample) for batch in ours for sample in zip(*batch, strict=True)] == plain
    assert read(DataLoader) != ours
    assert read(DataLoader, seeding="worker") == ours
    seen = next(iter(DataLoader(Seen(), seeding="worker", collate_fn=collate_counts)))
    assert seen[-1] == counts()


def test_a_seeding_that_there_is_not_is_refused() -> None:
    with pytest.raises(DataError, match=r"seeding is 'none'; it must be one of"):
        DataLoader(Drawing(), seeding="none")  # type: ignore[arg-type] # the mistake
    with pytest.raises(DataError, match=r"seeding=.worker.: .* is iterable"):
        list(DataLoader(SeenStream(), seeding="worker"))
