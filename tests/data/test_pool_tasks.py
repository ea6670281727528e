"""Tasks of thread pools within samples: what they draw does not follow from who runs first."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
import pytest

from launcher.data import DataLoader
from launcher.data.repeatable import entropy_sources


@pytest.fixture(autouse=True)
def a_process_that_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy_sources.pool_tasks, "are_drawing", False)


class Pooled:
    """Samples of several tasks, which end in any order."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pool: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.pool = self.pool or ThreadPoolExecutor(3)
        parts = list(self.pool.map(self.part, range(6)))
        return {"parts": np.array(parts), "own": random.random(), "numpy": np.random.rand()}

    def part(self, number: int) -> float:
        time.sleep(time.perf_counter_ns() % 997 / 2e5)
        if self.kind == "random":
            return random.random() + random.random()
        if self.kind == "numpy":
            return float(np.random.rand(3).sum())
        if self.kind == "torch":
            return float(pytest.importorskip("torch").rand(()))
        return float(np.random.default_rng().random()) if self.kind == "own" else 0.0


def read(kind: str, **arguments: Any) -> list[Any]:
    loader = DataLoader(Pooled(kind), batch_size=2, tensors=False, **arguments)
    loader.set_epoch(0)
    return [[part.tolist() for part in batch.values()] for batch in loader]


@pytest.mark.parametrize("kind", ["random", "numpy", "torch", "own", "nothing"])
def test_tasks_draw_the_same_in_every_process(kind: str) -> None:
    """The global generators, too, whether this process has met such tasks before or not."""
    if kind == "torch":
        pytest.importorskip("torch")
    first = read(kind)
    assert entropy_sources.pool_tasks.are_drawing is (kind in ("random", "numpy", "torch"))
    assert read(kind) == first
    assert read(kind, workers=2) == first
    if kind != "nothing":
        drawn = [part for batch in first for sample in batch[0] for part in sample]
        assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("kind", ["random", "numpy"])
def test_tasks_of_an_iterable_dataset_draw_the_same_in_every_process(kind: str) -> None:
    """As Hugging Face's shuffled streams, which fetch the samples of each file in a task."""

    class Stream:
        def __iter__(self) -> Iterator[dict[str, Any]]:
            yield from ({"own": np.array(index)} for index in range(5))  # of which none draws
            yield from map(Pooled(kind).__getitem__, range(12))

    def read_stream() -> list[str]:
        loader = DataLoader(Stream(), batch_size=None, tensors=False)
        loader.set_epoch(0)
        return list(map(repr, loader))

    first = read_stream()
    assert entropy_sources.pool_tasks.are_drawing
    assert read_stream() == first
    assert read_stream() == first


@pytest.mark.parametrize("kind", ["Thread", "ThreadPool"])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_other_threads_draw_in_any_order_is_found(
    kind: str, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Threaded(Pooled):
        def __getitem__(self, index: int) -> dict[str, Any]:
            if kind == "ThreadPool":
                with ThreadPool(3) as pool:
                    return {"parts": np.array(pool.map(self.part, range(6)))}
            parts = np.zeros(6)
            each = [lambda n=n: parts.__setitem__(n, self.part(n)) for n in range(6)]
            threads = [threading.Thread(target=work) for work in each]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return {"parts": parts}

    list(DataLoader(Threaded("random"), 2, workers=workers, name=f"{kind} {workers}"))
    assert "is not reproducible: the batch of samples " in caplog.text


def test_tasks_that_draw_nothing_run_side_by_side() -> None:
    together = threading.Barrier(2)

    class Meeting(Pooled):
        def part(self, number: int) -> float:
            together.wait(60)
            return 0.0

    loader = DataLoader(Meeting("nothing"), batch_size=2, tensors=False, name="meeting")
    assert len(list(loader)) == 6


def test_what_a_task_raises_reaches_the_sample() -> None:
    class Raising(Pooled):
        def part(self, number: int) -> float:
            if random.random() >= 0 and number == 3:
                raise KeyError(number)
            return 0.0

    with pytest.raises(KeyError):
        list(DataLoader(Raising("random"), batch_size=2, name="raising"))
