"""Dataset code sees one thread everywhere, and a loader that gives up its guarantee by name."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from loader_arguments import loader_arguments

from launcher.data import DataLoader, LoaderOptions
from launcher.data.repeatable import OneThread, single_thread
from launcher.errors import DataError

torch = pytest.importorskip("torch")


def counts() -> list[int]:
    """Threads of each library of this process."""
    threads = OneThread()
    with threads:
        pass
    return [get() for get, _ in threads._libraries.values()]


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
    assert before[0] == 2
    for batch in DataLoader(dataset(), collate_fn=collate_counts):
        assert {count for each in batch for count in each} == {1}
        assert counts() == before


TOLD = """
import torch

IMPORT = torch.get_num_threads()


class Told:
    def __init__(self):
        self.seen = [IMPORT, torch.get_num_threads()]

    def set_epoch(self, epoch):
        self.seen += [torch.get_num_threads()]

    def __len__(self):
        self.seen += [torch.get_num_threads()]
        return 4

    def __getitem__(self, index):
        return self.seen


class ToldStream(torch.utils.data.IterableDataset):
    def __init__(self):
        self.seen = [IMPORT, torch.get_num_threads()]

    set_epoch = Told.set_epoch
    __len__ = Told.__len__

    def __iter__(self):
        yield [*self.seen, torch.get_num_threads()]


def start(number):
    torch.utils.data.get_worker_info().dataset.seen += [torch.get_num_threads()]


def by_threads(length, epoch, seed):
    return [torch.get_num_threads()] * length


def batches_by_threads(length, epoch, seed):
    return iter([[torch.get_num_threads()]] * length)
"""


@pytest.fixture
def module_of_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "told_threads.py").write_text(TOLD)
    monkeypatch.syspath_prepend(tmp_path)
    yield "told_threads"
    sys.modules.pop("told_threads", None)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [("Told", {}), ("Told", {"workers": 1}), ("ToldStream", {})],
    ids=["script", "fork", "stream"],
)
def test_all_code_of_a_dataset_sees_one_thread(
    dataset: str, arguments: dict[str, Any], module_of_told: str
) -> None:
    """Import, constructor, __len__, set_epoch and worker_init_fn: what they keep is in samples."""
    loader = DataLoader(
        f"{module_of_told}:{dataset}",
        **loader_arguments(worker_init_fn=f"{module_of_told}:start", **arguments),
    )
    seen = torch.cat(next(iter(loader))).tolist()
    assert len(seen) >= 5
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    "sampler",
    [{"sampler": "by_threads"}, {"batch_sampler": "batches_by_threads"}],
    ids=lambda given: next(iter(given)),
)
def test_a_sampler_sees_one_thread(sampler: dict[str, str], module_of_told: str) -> None:
    named = {what: f"{module_of_told}:{name}" for what, name in sampler.items()}
    loader = DataLoader([10, 11, 12, 13], **named)
    assert [int(batch[0]) for batch in loader] == [11] * 4


@pytest.mark.usefixtures("two_threads")
def test_a_sampler_object_sees_one_thread() -> None:
    class ByThreads(torch.utils.data.Sampler):
        def __len__(self) -> int:
            return 4

        def __iter__(self) -> Iterator[int]:
            return iter([torch.get_num_threads()] * 4)

    assert [int(batch[0]) for batch in DataLoader([10, 11, 12], sampler=ByThreads())] == [11] * 4


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
    monkeypatch.setattr(
        torch, "stack", lambda x, **given: used.append(torch.get_num_threads()) or stack(x, **given)
    )
    batches = [
        batch[:, -1].tolist()
        for batch in DataLoader(Large(), batch_size=2, options=LoaderOptions(verify=0))
    ]
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


def libraries_of_late() -> Iterator[tuple[str, Any]]:
    if "loaded_late" in sys.modules:
        yield (
            "late",
            (lambda: Late.library.threads, lambda count: setattr(Late.library, "threads", count)),
        )


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
    monkeypatch.setattr(single_thread, "_loaded_libraries", libraries_of_late)
    monkeypatch.setattr(Late.library, "threads", 3)
    loader = DataLoader(dataset(), workers=workers, options=LoaderOptions(verify=0))
    assert [int(batch[0]) for batch in loader] == [1, 1]
    assert Late.library.threads == 3


def test_a_module_that_imports_torch_sees_one_thread_from_then_on(module_of_told: str) -> None:
    """The script has not imported torch, whose threads are its own again afterwards."""
    script = f"""
import os, sys
os.environ["OMP_NUM_THREADS"] = "2"
from launcher.data import DataLoader
assert "torch" not in sys.modules
print([int(each[0]) for each in next(iter(DataLoader("{module_of_told}:Told")))])
print(sys.modules["torch"].get_num_threads())
"""
    assert output_of(script) == ["[1, 1, 1, 1]", "2"]


OPENMP = """
import ctypes
import os
import sys

sys.path.append(sys.argv[1])
os.environ["OMP_NUM_THREADS"] = "2"
from launcher.data import DataLoader, LoaderOptions

if sys.argv[2] == "script":
    import loads_openmp


class Seen:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        import loads_openmp

        return loads_openmp.library.omp_get_max_threads()


print([int(batch[0]) for batch in DataLoader(Seen(), options=LoaderOptions(verify=0))])
print(Seen()[0], "torch" in sys.modules)
"""


@pytest.mark.parametrize("loaded_by", ["script", "dataset"])
def test_openmp_of_another_library_uses_one_thread(loaded_by: str, tmp_path: Path) -> None:
    """scikit-learn and others bring a copy of it, whose name has a hash; torch is not needed."""
    copy = tmp_path / "libgomp-a34b3233.so.1.0.0"
    shutil.copy(Path(torch.__file__).parent / "lib" / "libgomp.so.1", copy)
    (tmp_path / "loads_openmp.py").write_text(
        f"import ctypes\nlibrary = ctypes.CDLL({str(copy)!r})\n"
    )
    assert output_of(OPENMP, str(tmp_path), loaded_by) == ["[1, 1]", "2 False"]


THREADS_OF_FORKS = """
import os

os.environ["OPENBLAS_NUM_THREADS"] = "3"
import numpy as np
from launcher.data import DataLoader

np.ones((500, 500)) @ np.ones((500, 500))


class Threads:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return len(os.listdir("/proc/self/task"))


print(Threads()[0] > 1)
print([int(batch[0]) for batch in DataLoader(Threads(), workers=2)])
"""


def test_forks_have_no_threads_of_openblas() -> None:
    """They would keep a CPU busy for a while, which the other processes want."""
    assert output_of(THREADS_OF_FORKS) == ["True", "[1, 1, 1, 1]"]


def output_of(script: str, *arguments: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines()


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
    unseeded = LoaderOptions(seeding="worker")
    ours = read(DataLoader, options=unseeded, tensors=True)
    assert [tuple(sample) for batch in ours for sample in zip(*batch, strict=True)] == plain
    assert read(DataLoader) != ours
    assert read(DataLoader, options=unseeded) == ours
    seen = next(iter(DataLoader(Seen(), collate_fn=collate_counts, options=unseeded)))
    assert seen[-1] == counts()


def test_a_seeding_that_there_is_not_is_refused() -> None:
    with pytest.raises(DataError, match=r"seeding is 'none'; it must be one of"):
        DataLoader(Drawing(), options=LoaderOptions(seeding="none"))  # type: ignore[arg-type] # the mistake
    with pytest.raises(DataError, match=r"seeding=.worker.: .* is iterable"):
        list(DataLoader(SeenStream(), options=LoaderOptions(seeding="worker")))
