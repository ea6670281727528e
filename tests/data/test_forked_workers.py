"""Worker processes beside the script: the same bits, whatever happens to them."""

from __future__ import annotations

import os
import random
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
