"""Worker processes beside the script: the same bits, whatever happens to them."""

from __future__ import annotations

import gc
import os
import random
import resource
import signal
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_arguments import loader_arguments
from waiting import wait_until

from launcher.data import DataLoader, LoaderOptions
from launcher.data.batches import LARGE_BATCH
from launcher.data.memory import MARK, RETURNED, BatchSlabs, ReusedMemory
from launcher.errors import DataError, SampleError

#: They read a stream again from its start, to compare.
pytestmark = pytest.mark.filterwarnings("ignore:another loader of:UserWarning")


class Augmented:
    """Samples with random numbers of every generator."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"index": index, "python": random.random(), "numpy": np.random.rand(3)}


class Killed(Augmented):
    """Kills its process at one sample, the first time only if there is a mark."""

    def __init__(self, mark: Path | None) -> None:
        self.mark = mark

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == 9 and (self.mark is None or not self.mark.exists()):
            if self.mark is not None:
                self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Stream:
    """An iterable dataset."""

    def __init__(self, read: Callable[[], Iterator[Any]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Any]:
        return self._read()


class WithProcess(Augmented):
    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"process": os.getpid()}


def read(dataset: Any, **arguments: Any) -> list[Any]:
    loader = DataLoader(
        dataset,
        **loader_arguments(**{"batch_size": 4, "shuffle": True, "tensors": False, **arguments}),
    )
    return [{name: part.tolist() for name, part in batch.items()} for batch in loader]


def children() -> set[str]:
    """The child processes of this one; other tests may have left some that serve them."""
    files = Path("/proc/self/task").glob("*/children")
    return {pid for file in files for pid in file.read_text().split()}


@pytest.fixture(autouse=True)
def _no_child_remains() -> Iterator[None]:
    before = children()
    yield
    wait_until(lambda: not any(map(is_running, children() - before)))


def is_running(pid: str) -> bool:
    """Whether a child is more than its exit code."""
    return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_exit_codes_of_an_epoch_are_taken_at_a_later_one() -> None:
    loader = DataLoader(Augmented(), batch_size=4, workers=2)
    before = children()
    for _ in range(8):
        list(loader)
        wait_until(lambda: not any(map(is_running, children() - before)))
    assert len(children() - before) <= 4


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_batch_is_gone_once_the_script_drops_it(workers: int, on_error: str) -> None:
    loader = DataLoader(
        Augmented(),
        batch_size=4,
        workers=workers,
        tensors=False,
        options=LoaderOptions(on_error=on_error),
    )
    for batch in loader:
        array = weakref.ref(batch["numpy"])
        del batch
        assert array() is None


def test_a_batch_of_an_iterable_is_gone_once_the_script_drops_it() -> None:
    def stream() -> Iterator[Any]:
        for index in range(9):
            yield np.full(3, index)

    for batch in DataLoader(Stream(stream), batch_size=2, tensors=False):
        array = weakref.ref(batch)
        del batch
        assert array() is None


@pytest.mark.parametrize("workers", [1, 2, 3, 40])
def test_batches_are_the_same_bits_with_any_number_of_workers(workers: int) -> None:
    random.seed(1)
    assert read(Augmented(), workers=workers) == read(Augmented())


def test_batches_are_prepared_in_other_processes() -> None:
    processes = {batch["process"][0] for batch in read(WithProcess(), workers=2)}
    assert len(processes) == 2
    assert os.getpid() not in processes


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(Killed(tmp_path / "mark"), workers=2) == read(Augmented())
    assert "died by signal 9" in caplog.text


def test_a_worker_that_dies_before_a_process_of_its_own_is_replaced(tmp_path: Path) -> None:
    class Forking(Killed):
        def __getitem__(self, index: int) -> dict[str, Any]:
            if index == 9 and not (tmp_path / "mark").exists():
                if (child := os.fork()) == 0:
                    signal.alarm(600)
                    signal.pause()
                (tmp_path / "child").write_text(str(child))
            return super().__getitem__(index)

    assert read(Forking(tmp_path / "mark"), workers=2) == read(Augmented())
    child = (tmp_path / "child").read_text()
    assert is_running(child)
    os.kill(int(child), signal.SIGKILL)


def test_workers_that_die_again_and_again_are_an_error() -> None:
    with pytest.raises(DataError, match=r"died 4 times in one epoch, the last by signal 9 at step"):
        read(Killed(None), workers=2)


# Batches that are prepared twice ----------------------------------------------------------------

VERIFIED: dict[str, Any] = {"verify": 1.0, "on_nondeterminism": "error"}


@pytest.mark.parametrize(("workers", "share"), [(1, 1.0), (2, 1.0), (3, 1.0), (40, 1.0), (2, 0.5)])
def test_a_share_of_the_batches_is_prepared_by_another_worker_too(
    tmp_path: Path, workers: int, share: float
) -> None:
    class Noting(Augmented):
        def __getitem__(self, index: int) -> dict[str, Any]:
            with (tmp_path / "log").open("a") as log:
                log.write(f"{index} {os.getpid()}\n")
            return super().__getitem__(index)

    batches = read(Noting(), workers=workers, **{**VERIFIED, "verify": share})
    assert batches == read(Augmented())
    prepared = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    by_index = {index: [pid for each, pid in prepared if each == index] for index, _ in prepared}
    assert len(by_index) == 23
    assert 23 * share < sum(map(len, by_index.values())) - 23 + 4
    if share == 1.0:
        assert {len(pids) for pids in by_index.values()} == {2}
        assert {len({*pids}) for pids in by_index.values()} == {min(workers, 2)}


@pytest.mark.parametrize("collate_fn", [None, list], ids=["arrays", "plain data"])
@pytest.mark.parametrize("differs_at", [0, 22], ids=["first", "last"])
def test_a_sample_that_differs_between_two_workers_fails_the_epoch(
    collate_fn: Callable[[Any], Any] | None, differs_at: int
) -> None:
    class WithProcessAt(Augmented):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"process": os.getpid() if index == differs_at else 0}

    loader = DataLoader(
        WithProcessAt(), 4, **loader_arguments(workers=2, collate_fn=collate_fn, **VERIFIED)
    )
    with pytest.raises(
        DataError, match=rf"not reproducible: the batch of samples {differs_at // 4 * 4}"
    ):
        list(loader)


def test_a_worker_that_dies_owes_what_it_was_to_prepare_again(tmp_path: Path) -> None:
    assert read(Killed(tmp_path / "mark"), workers=2, **VERIFIED) == read(Augmented())


# Errors -----------------------------------------------------------------------------------------


def test_an_error_of_a_sample_arrives_with_its_type_and_place() -> None:
    class Failing(Augmented):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {}["label"]

    with pytest.raises(KeyError) as caught:
        read(Failing(), workers=2, shuffle=False)
    assert isinstance(caught.value, SampleError)
    assert caught.value.index == 0
    assert "Traceback" in caught.value.remote_traceback

    def collate(samples: list[Any]) -> Any:
        raise LookupError("no batch")

    with pytest.raises(LookupError, match=r"the collate_fn .* raised LookupError"):
        read(Augmented(), workers=1, collate_fn=collate)


def test_a_loop_that_is_left_ends_its_workers_and_can_be_resumed() -> None:
    whole = read(Augmented())
    loader = DataLoader(Augmented(), 4, True, tensors=False, workers=2)
    iterator = iter(loader)
    first = next(iterator)
    assert first["python"].tolist() == whole[0]["python"]
    state = loader.state_dict()
    iterator.close()  # type: ignore[attr-defined] # a generator
    again = DataLoader(Augmented(), 4, True, tensors=False, workers=3)
    again.load_state_dict(state)
    assert [batch["python"].tolist() for batch in again] == [b["python"] for b in whole[1:]]


def test_two_loaders_have_workers_at_once() -> None:
    one, two = (DataLoader(Augmented(), 4, workers=2, name=name) for name in "ab")
    pairs = list(zip(one, two, strict=True))
    assert all(a["index"].tolist() == b["index"].tolist() for a, b in pairs)


def test_each_worker_calls_the_init_function() -> None:
    def init(number: int) -> None:
        os.environ["PREPARED_BY"] = str(os.getpid())

    class Asking(Augmented):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"same": os.environ.get("PREPARED_BY") == str(os.getpid())}

    batches = read(Asking(), workers=2, worker_init_fn=init)
    assert {each for batch in batches for each in batch["same"]} == {True}
    assert "PREPARED_BY" not in os.environ


def test_what_a_dataset_prints_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Printing(Augmented):
        def __getitem__(self, index: int) -> dict[str, Any]:
            print("sample", index)
            return super().__getitem__(index)

    with (tmp_path / "out").open("w") as stdout, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", stdout)
        print("begin")
        read(Printing(), workers=2, shuffle=False, verify=0)
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[0] == "begin"
    assert sorted(lines[1:]) == sorted(f"sample {index}" for index in range(23))


def test_a_batch_of_megabytes_arrives_whole() -> None:
    class Large(Augmented):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"x": np.full(1 << 18, index, np.int64)}

    for batch in DataLoader(Large(), 4, workers=2, tensors=False):
        assert (batch["x"] == batch["x"][:, :1]).all()
        batch["x"] += 1  # the script's own memory


# Large batches, in memory that is used again ----------------------------------------------------


class Large(Augmented):
    """Samples of the sizes that a function gives, in MiB, of its index."""

    def __init__(self, mebibytes: Callable[[int], float] = lambda _: 1) -> None:
        self.mebibytes = mebibytes

    def __getitem__(self, index: int) -> dict[str, Any]:
        size = int(self.mebibytes(index) * 2**20)
        x = np.arange(size, dtype=np.uint8) + np.uint8(index)
        return {"index": index, "x": x, "name": str(index)}


def slabs_mapped() -> int:
    gc.collect()  # what other tests have left
    return Path("/proc/self/maps").read_text().count("launcher-slab")


def assert_as_without_workers(dataset: Any, **arguments: Any) -> list[Any]:
    """All batches of an epoch, which are kept, are those that the script itself prepares."""
    ours, theirs = (list(DataLoader(dataset, workers=n, **arguments)) for n in (2, 0))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        for name, part in a.items():
            assert type(part) is type(b[name])
            assert getattr(part, "dtype", None) == getattr(b[name], "dtype", None)
            assert np.array_equal(part, b[name])
    return ours


def reversed_batch(samples: list[dict[str, Any]]) -> dict[str, Any]:
    x = np.concatenate([sample["x"] for sample in samples])
    return {"x": x, "half": x[: len(x) // 2], "reversed": x[::-1]}


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("collate_fn", [None, reversed_batch], ids=["stacked", "collate_fn"])
def test_large_batches_that_are_kept_stay_as_they_are(
    batch_size: int, tensors: bool, collate_fn: Any
) -> None:
    if tensors:
        pytest.importorskip("torch")
    mapped = slabs_mapped()
    kept = assert_as_without_workers(
        Large(), batch_size=batch_size, tensors=tensors, collate_fn=collate_fn
    )
    assert slabs_mapped() - mapped >= len(kept)
    del kept
    assert slabs_mapped() == mapped, "and their memory goes with them"


@pytest.mark.parametrize("mebibytes", [(3, 0.01, 20), (20, 3, 19), (0.9, 1.1, 0.9)], ids=str)
def test_large_batches_may_differ_in_size(mebibytes: tuple[float, ...]) -> None:
    sizes = Large(lambda index: mebibytes[index % 3])
    assert_as_without_workers(sizes, batch_size=1, tensors=False)
    mapped = slabs_mapped()
    for batch in DataLoader(sizes, 1, workers=1, tensors=False):
        assert batch["x"][0, 0] == batch["index"][0]
        assert slabs_mapped() - mapped <= 5


def test_memory_of_batches_that_are_dropped_is_used_again() -> None:
    addresses = set()
    for batch in DataLoader(Large(), 1, workers=1, tensors=False):
        addresses.add(batch["x"].ctypes.data >> 20)  # of the slab
        batch["x"][:] = 77  # the script's own
    # Two of the script, two that were asked for, one that is prepared, one that is prepared again.
    assert len(addresses) <= 6 < 23 / 2


def test_a_view_of_a_batch_keeps_its_memory() -> None:
    views = [batch["x"][-1, -3:] for batch in DataLoader(Large(), 1, workers=1, tensors=False)]
    expected = [batch["x"][-1, -3:] for batch in DataLoader(Large(), 1, tensors=False)]
    assert np.array_equal(views, expected)


def test_a_fork_of_the_script_keeps_the_batch_that_it_has() -> None:
    batches = iter(DataLoader(Large(), 1, workers=1, tensors=False))
    batch = next(batches)
    before = batch["x"].tobytes()
    go_on, told = os.pipe()
    if (child := os.fork()) == 0:
        os.read(go_on, 1)
        os._exit(batch["x"].tobytes() != before)
    for batch in batches:
        del batch
    os.write(told, b".")
    assert os.waitpid(child, 0)[1] == 0


def test_kinds_of_arrays_in_large_batches_are_those_of_small_ones() -> None:
    torch = pytest.importorskip("torch")
    made: dict[str, Callable[[int], Any]] = {
        "fortran": lambda n: np.asfortranarray(np.full((512, 512), n)),
        "dates": lambda n: np.full(1 << 17, n).astype("M8[s]"),
        "texts": lambda n: np.full(1 << 17, str(n)),
        "big-endian": lambda n: np.full(1 << 17, n, ">i8"),
        "mixed": lambda n: np.full(1 << 18, n, np.int32 if n % 2 else np.float32),
        "bfloat16": lambda n: torch.full((1 << 20,), n, dtype=torch.bfloat16),
        "with gradients": lambda n: torch.full((1 << 20,), float(n), requires_grad=True),
        "channels last": lambda n: torch.full((2, 4, 256, 256), n).to(
            memory_format=torch.channels_last
        ),
        "conjugate": lambda n: torch.full((1 << 17,), n * 1j).conj(),
        "booleans": lambda n: torch.full((1 << 20,), bool(n % 2)),
    }

    class Kinds(Augmented):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {name: make(index) for name, make in made.items()}

    def described(part: Any) -> tuple[Any, ...]:
        if isinstance(part, np.ndarray):
            return part.dtype, part.strides, part.tobytes()
        values = part.detach().resolve_conj().contiguous().view(torch.uint8)
        return part.dtype, part.stride(), part.requires_grad, values.numpy().tobytes()

    ours, theirs = (list(DataLoader(Kinds(), 4, workers=n, drop_last=True)) for n in (2, 0))
    assert len(ours) == len(theirs) == 5
    for a, b in zip(ours, theirs, strict=True):
        assert [name for name in made if described(a[name]) != described(b[name])] == []


def test_without_descriptors_batches_are_copied() -> None:
    class WithoutDescriptors(Large):
        def __getitem__(self, index: int) -> dict[str, Any]:
            if os.getpid() != script:
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
            return super().__getitem__(index)

    script, mapped = os.getpid(), slabs_mapped()
    assert_as_without_workers(WithoutDescriptors(), batch_size=2, tensors=False)
    assert slabs_mapped() == mapped


def test_a_script_with_too_many_open_files_is_told() -> None:
    batches = iter(DataLoader(Large(lambda n: n // 2), 2, workers=1, tensors=False))
    next(batches)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(DataError, match="too many open files for another batch"):
            list(batches)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_memory_that_code_of_a_dataset_still_has_is_not_used_again() -> None:
    retired: list[int] = []
    slabs = BatchSlabs(retired.append)
    array = np.ones(LARGE_BATCH, np.uint8)

    def send(array: Any) -> Any:
        _, slab = slabs.frame("", 0, None, [array])
        assert slab is not None
        slab.memory[MARK] = RETURNED  # as the script does
        slabs.begin()
        return slab.number

    assert send(array) == 1
    numbers = []
    for _ in range(3):
        held = slabs.memory_for(LARGE_BATCH)
        assert held is not None
        held[:] = 7
        numbers.append(send(held))
    assert numbers == [1, 2, 1], "one of them was held while the next one was made"


def test_memory_of_a_worker_is_used_again_once_no_array_is_over_it() -> None:
    memory = ReusedMemory()
    one, two = (memory.memory_for(size) for size in (100, 90))
    places = [one.ctypes.data, two.ctypes.data]
    view = two[3:].view(np.int8)[1:]
    del one, two
    again = memory.memory_for(99)
    assert again.ctypes.data == places[0]
    more = memory.memory_for(80)
    assert more.ctypes.data not in places, "one has a view, the other is in use"
    del view
    other = memory.memory_for(90)
    assert other.ctypes.data == places[1]


def test_plain_batches_are_equal_and_share_nothing_that_can_be_modified() -> None:
    row = [1, -(1 << 70), 0.1, float("inf"), None, True, "\ud800\u00e9", b"\x00", 1j]

    class Rows(Augmented):
        def __getitem__(self, index: int) -> Any:
            return {"row": row, "again": (row, list(range(index))), index: {}}

    ours, theirs = (list(DataLoader(Rows(), 4, workers=count, collate_fn=list)) for count in (2, 0))
    assert repr(ours) == repr(theirs)
    first = ours[0][0]
    assert first["row"] is not first["again"][0]
    assert first["row"] is not ours[0][1]["row"]


def test_an_iterable_dataset_is_read_by_the_script_itself() -> None:
    class Stream:
        def __iter__(self) -> Iterator[int]:
            yield os.getpid()

    assert [batch.item() for batch in DataLoader(Stream(), workers=2)] == [os.getpid()]


@pytest.mark.parametrize("workers", [-1, 1.5, True, "2"], ids=str)
def test_a_number_of_workers_that_cannot_be_is_refused(workers: Any) -> None:
    with pytest.raises(DataError, match=r"workers is .* it must be 0 or more"):
        DataLoader(Augmented(), workers=workers)
