"""Batches that are prepared twice: a difference is named, and fails the run or warns once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hosts import Hosts

from launcher.data import DataLoader
from launcher.data.dispatcher.determinism_check import DeterminismCheck
from launcher.data.order.batch_plan import BatchPlan
from launcher.data.order.stream_spec import StreamSpec
from launcher.data.order.verification import BatchContent, is_chosen
from launcher.errors import DataError


class Counting:
    """Its samples hold how many were prepared before."""

    def __init__(self, key: str = "x") -> None:
        self.key, self.prepared = key, 0

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, object]:
        self.prepared += index == 5
        return {"id": index, self.key: np.full(3, self.prepared if index == 5 else 0)}


def test_a_difference_within_a_process_is_an_error_with_sample_and_array() -> None:
    loader = DataLoader(Counting(), batch_size=4, verify=1.0, on_nondeterminism="error")
    expected = r"Counting.* is not reproducible: the batch of samples 4, 5, 6, 7 was prepared twice"
    with pytest.raises(DataError, match=rf"{expected} and differs in sample 5, in array 1 \(int64"):
        list(loader)


def test_a_difference_is_a_warning_by_default_and_once(caplog: pytest.LogCaptureFixture) -> None:
    loader = DataLoader(Counting(), batch_size=4, verify=1.0)
    assert len(list(loader)) + len(list(loader)) == 6
    assert caplog.text.count("is not reproducible") == 1


@pytest.mark.parametrize("length", [0, 10_000], ids=["short", "long"])
def test_the_text_of_a_skipped_sample_may_hold_an_address(length: int) -> None:
    class Broken(Counting):
        def __getitem__(self, index: int) -> dict[str, object]:
            if index == 5:
                self.prepared += 1
                raise OSError(f"cannot identify <BytesIO at {self.prepared}>" + "." * length)
            return {"id": index}

    options = {"on_error": "skip", "verify": 1.0, "on_nondeterminism": "error", "tensors": False}
    batches = list(DataLoader(Broken(), 4, **options))  # type: ignore[arg-type]
    assert [batch["id"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10, 11]]


def test_a_difference_beside_a_skipped_sample_is_found() -> None:
    class Broken(Counting):
        def __getitem__(self, index: int) -> dict[str, object]:
            if index == 4:
                raise KeyError(index)
            return super().__getitem__(index)

    loader = DataLoader(
        Broken(), batch_size=4, verify=1.0, on_error="skip", on_nondeterminism="error"
    )
    with pytest.raises(DataError, match="prepared twice and differs in its samples, in array 1"):
        list(loader)


def test_nothing_is_prepared_twice_without_verify() -> None:
    dataset = Counting()
    list(DataLoader(dataset, batch_size=4, verify=0))
    assert dataset.prepared == 1


@pytest.mark.parametrize("share", [-0.1, 1.5, "all", True])
def test_a_share_is_a_number_from_0_to_1(share: object) -> None:
    with pytest.raises(DataError, match=f"verify is {share!r}; it must be "):
        DataLoader(Counting(), verify=share)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [0.001, 0.02, 0.5])
def test_about_so_many_batches_are_prepared_twice(share: float) -> None:
    spec = StreamSpec(name="s", dataset="m:f", verify=share)
    plans = [BatchPlan(spec=spec, length=40_000, epoch=epoch, rank=0, world=1) for epoch in (0, 1)]
    chosen = [[step for step in range(40_000) if is_chosen(plan, step)] for plan in plans]
    assert chosen[0] != chosen[1]
    for steps in chosen:
        assert share * 40_000 - 2 <= len(steps) <= share * 40_000 + 2


def content(tree: object = None, **changes: object) -> BatchContent:
    arrays = {"a": np.arange(6.0).reshape(3, 2), "b": np.arange(4), **changes}
    return BatchContent.take(tree, list(arrays.values()), samples=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (content(), ""),
        (content(a=np.array([[0.0, 1], [2, 3], [4, 6]])), "sample 9, in array 0 (float64 of shape"),
        (content(b=np.array([0, 1, 2, 9])), "its samples, in array 1 (int64 of shape (4,))"),
        (content(b=np.arange(5)), "its arrays: float64 of shape (3, 2), int64 of shape (4,), and"),
        (content(["x"]), "what it holds beside arrays"),
    ],
    ids=["none", "a row", "no row of a sample", "a shape", "the rest"],
)
def test_what_differs_is_said(other: BatchContent, difference: str) -> None:
    assert content().difference(other, [7, 8, 9]).startswith(difference)
    assert bool(content().difference(other, [7, 8, 9])) == bool(difference)


def test_a_worker_of_another_host_prepares_it_again_if_there_is_one() -> None:
    verifier, workers = DeterminismCheck(), ["algo-1/0/5", "algo-1/1/6", "algo-2/0/7", "algo-2/1/8"]
    asked = [
        verifier.choose_second_worker(("run", n), workers[0], content(), workers) for n in range(4)
    ]
    assert asked == ["algo-2/0/7", "algo-2/1/8"] * 2
    assert (
        verifier.choose_second_worker(("run", 0), workers[1], content(), workers) is None
    )  # it waits for one
    assert (
        verifier.choose_second_worker(("run", 9), workers[0], content(), workers[:2]) == workers[1]
    )
    assert (
        verifier.choose_second_worker(("run", 10), workers[0], content(), workers[:1]) == workers[0]
    )
    assert (
        verifier.choose_second_worker(("run", 11), workers[0], content(), []) is None
    )  # it is leaving
    assert verifier.pop_first(("run", 2)) == (workers[0], content())
    verifier.close("run")
    assert verifier.pop_first(("run", 3)) is None


#: The sample that differs waits for both workers: one alone would prepare it again itself.
OF_PROCESS = """
import os
import time
from pathlib import Path
import numpy as np

class Drifting:
    def __len__(self):
        return 400
    def __getitem__(self, index):
        (Path("FOLDER") / f"worker-{os.getpid()}").touch()
        while index == 150 and len(list(Path("FOLDER").glob("worker-*"))) < 2:
            time.sleep(0.01)
        return index, np.array([os.getpid() if index == 150 else 0])

def train_set():
    return Drifting()
"""
READER = """
from launcher.data import DataLoader
loader = DataLoader("pipeline:train_set", batch_size=2, verify=1.0, on_nondeterminism="WORD")
print("batches", sum(1 for _ in loader), flush=True)
"""


@pytest.mark.parametrize("word", ["warn", "error"])
def test_a_difference_between_workers_is_found(
    make_hosts: Callable[..., Hosts], tmp_path: Path, word: str
) -> None:
    pipeline = OF_PROCESS.replace("FOLDER", str(tmp_path))
    files = {"pipeline.py": pipeline, "train.py": READER.replace("WORD", word)}
    hosts = make_hosts(files, data=2, train=1)
    hosts.start()
    codes = hosts.wait()
    text = "the batch of samples 150, 151 was prepared twice and differs in sample 150, in array 1"
    leader = hosts["algo-3"]
    if word == "warn":
        assert set(codes.values()) == {0}, hosts.output()
        assert "batches 200" in hosts.output()
        (event,) = leader.events("dataset_differs")
        assert text in str(event["why"])
        assert len({re.sub("/.*", "", worker) for worker in event["workers"]}) == 2  # type: ignore[attr-defined]
    else:
        assert codes["algo-3"] != 0
        assert leader.failure is not None
        assert text in leader.failure
