"""Batches that are prepared twice: a difference is named, and fails the run or warns once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_arguments import loader_arguments
from made_hosts import MakeHosts
from programs import map_style

from launcher.data import DataLoader, LoaderOptions
from launcher.data.dispatcher import DeterminismCheck
from launcher.data.order import BatchContent, BatchPlan, StreamSpec, is_chosen
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
    loader = DataLoader(
        Counting(), batch_size=4, options=LoaderOptions(verify=1.0, on_nondeterminism="error")
    )
    expected = r"Counting.* is not reproducible: the batch of samples 4, 5, 6, 7 was prepared twice"
    with pytest.raises(DataError, match=rf"{expected} and differs in sample 5, in array 1 \(int64"):
        list(loader)


def test_a_difference_is_a_warning_by_default_and_once(caplog: pytest.LogCaptureFixture) -> None:
    loader = DataLoader(Counting(), batch_size=4, options=LoaderOptions(verify=1.0))
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
    batches = list(DataLoader(Broken(), 4, **loader_arguments(**options)))  # type: ignore[arg-type]
    assert [batch["id"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 10, 11]]


def test_a_difference_beside_a_skipped_sample_is_found() -> None:
    class Broken(Counting):
        def __getitem__(self, index: int) -> dict[str, object]:
            if index == 4:
                raise KeyError(index)
            return super().__getitem__(index)

    loader = DataLoader(
        Broken(),
        batch_size=4,
        options=LoaderOptions(verify=1.0, on_error="skip", on_nondeterminism="error"),
    )
    with pytest.raises(DataError, match="prepared twice and differs in its samples, in array 1"):
        list(loader)


def test_nothing_is_prepared_twice_without_verify() -> None:
    dataset = Counting()
    list(DataLoader(dataset, batch_size=4, options=LoaderOptions(verify=0)))
    assert dataset.prepared == 1


def test_by_default_the_first_batches_of_the_first_epoch_are_prepared_twice() -> None:
    loaded: list[int] = []

    class Noting:
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> int:
            loaded.append(index)
            return index

    loader = DataLoader(Noting(), batch_size=2, name="noted")
    batches = iter(loader)
    next(batches)
    assert loaded == [0, 1]  # the first batch is not delayed
    list(batches)
    assert sorted(loaded) == sorted([*range(10), *range(6)])
    loaded.clear()
    list(loader)
    assert loaded == list(range(10))


@pytest.mark.parametrize("share", [-0.1, 1.5, "all", True])
def test_a_share_is_a_number_from_0_to_1(share: object) -> None:
    with pytest.raises(DataError, match=f"verify is {share!r}; it must be "):
        DataLoader(Counting(), options=LoaderOptions(verify=share))  # type: ignore[arg-type]


def of_rows() -> Iterator[int]:
    yield from range(8)


@pytest.mark.parametrize(
    ("dataset", "options"),
    [(Counting(), {"seeding": "worker"}), (of_rows, {})],
    ids=["seeded by worker", "iterable"],
)
def test_a_share_of_what_cannot_be_compared_is_refused(
    dataset: object, options: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match=r"^verify=1\.0: .*: leave it out"):
        list(
            DataLoader(
                dataset, 4, **loader_arguments(verify=1.0, on_nondeterminism="error", **options)
            )
        )
    assert list(
        DataLoader(dataset, 4, **loader_arguments(verify=0, name="not compared", **options))
    )


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
    workers = ["algo-1/0/5", "algo-1/1/6", "algo-2/0/7", "algo-2/1/8"]
    verifier = opened()
    asked = []
    for step in range(4):
        verifier.add(("run", step), workers[0], content())
        asked += verifier.to_ask(workers)
    assert [name for _, name in asked] == ["algo-2/0/7", "algo-2/1/8"] * 2
    verifier.add(("run", 0), workers[1], content())
    assert verifier.to_ask(workers) == []  # it waits for one
    for step, names, expected in ((5, workers[:2], workers[1]), (6, workers[:1], workers[0])):
        verifier.close("run")
        verifier.open("run", plan_of(8))
        verifier.add(("run", step), workers[0], content())
        assert verifier.to_ask([]) == []  # none is there
        assert verifier.to_ask(names) == [(("run", step), expected)]
        assert verifier.to_ask([workers[3]]) == [(("run", step), workers[3])]  # that one was lost
    assert verifier.pop_first(("run", 6)) == (workers[0], content())
    verifier.close("run")
    assert verifier.pop_first(("run", 6)) is None


def plan_of(steps: int, **options: Any) -> BatchPlan:
    spec = StreamSpec(name="s", dataset="m:f", **{"verify": 1.0, **options})
    return BatchPlan(spec=spec, length=steps, epoch=0)


def opened(steps: int = 8, **options: Any) -> DeterminismCheck:
    verifier = DeterminismCheck()
    assert verifier.open("run", plan_of(steps, **options))
    return verifier


def test_the_last_batch_waits_until_the_others_are_compared() -> None:
    verifier = opened(3)
    for step in (1, 0):
        assert not verifier.record_arrival("run", step)
        verifier.add(("run", step), "algo-1/0/5", content())
    assert verifier.pop_first(("run", 0)) is not None
    assert not verifier.is_done("run")
    assert verifier.pop_first(("run", 1)) is not None
    assert verifier.is_done("run")
    assert verifier.counts("run") == (2, 2)


def test_by_default_the_last_batch_waits_for_the_first_ones_alone() -> None:
    verifier = opened(100, verify=None)
    for step in range(3):
        verifier.add(("run", step), "algo-1/0/5", content())
        verifier.record_arrival("run", step)
        assert not verifier.is_done("run")
        verifier.pop_first(("run", step))
    assert verifier.is_done("run")
    assert not DeterminismCheck().open("run", plan_of(9, verify=0))


def test_a_comparison_that_is_lost_with_its_worker_is_given_up() -> None:
    verifier = opened(2)
    verifier.record_arrival("run", 0)  # and what its worker prepared is not known
    assert "run" in [name for _ in range(100) for name in verifier.poll()]
    assert verifier.counts("run") == (0, 1)
    assert DeterminismCheck().counts("run") is None


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
from launcher.data import DataLoader, LoaderOptions
options = LoaderOptions(verify=1.0, on_nondeterminism="WORD")
loader = DataLoader("pipeline:train_set", batch_size=2, options=options)
print("batches", sum(1 for _ in loader), flush=True)
"""


@pytest.mark.parametrize("word", ["warn", "error"])
def test_a_difference_between_workers_is_found(
    make_hosts: MakeHosts, tmp_path: Path, word: str
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


SHORT = map_style("(index, np.array([time.time_ns() if index == AT else 0]))", length=4)


@pytest.mark.parametrize("at", [0, 3])
def test_an_epoch_does_not_end_before_it_is_compared(make_hosts: MakeHosts, at: int) -> None:
    """Four batches, which a rank reads quicker than workers prepare them again."""
    reader = READER.replace("WORD", "error").replace("batch_size=2", "batch_size=1")
    files = {"pipeline.py": SHORT.replace("AT", str(at)), "train.py": reader}
    hosts = make_hosts(files, data=2, train=1)
    hosts.start()
    assert hosts.wait()["algo-3"] != 0, hosts.output()
    assert f"the batch of samples {at} was prepared twice" in (hosts["algo-3"].failure or "")


#: As a generator in C that nobody seeds: it begins alike in each process.
ALIKE = """
import collections
import numpy as np

drawn = collections.Counter()

class Alike:
    def __init__(self, name):
        self.name = name
    def __len__(self):
        return 4
    def __getitem__(self, index):
        drawn[self.name] += 1
        return index, np.array([drawn[self.name]])

def train_set(name):
    return Alike(name)
"""
EACH = """
from launcher.data import DataLoader
for size in (1, 4):
    for number in range(4):
        name = f"{number} in batches of {size}"
        for _ in DataLoader("pipeline:train_set", size, dataset_args={"name": name}, epochs=1):
            pass
"""


def test_generators_that_begin_alike_in_each_worker_are_found_of_every_dataset(
    make_hosts: MakeHosts,
) -> None:
    hosts = make_hosts({"pipeline.py": ALIKE, "train.py": EACH}, data=2, train=1)
    hosts.run()
    events = [each for name in hosts.hosts for each in hosts[name].events("dataset_differs")]
    expected = {f"{number} in batches of {size}" for size in (1, 4) for number in range(4)}
    assert {str(each["dataset"]).split("'")[1] for each in events} == expected
    assert all("seed drawn from `random`" in str(each["why"]) for each in events)


def test_an_epoch_that_repeats_itself_is_compared_as_a_whole(
    make_hosts: MakeHosts,
) -> None:
    reader = READER.replace("WORD", "error").replace("batch_size=2", "batch_size=1")
    files = {"pipeline.py": SHORT.replace("AT", "9"), "train.py": reader}
    hosts = make_hosts(files, data=1, train=1)
    hosts.run()
    assert "batches 4" in hosts.output()
    (event,) = hosts["algo-2"].events("batches_compared")
    assert (event["epoch"], event["compared"], event["of"]) == (0, 4, 4)
