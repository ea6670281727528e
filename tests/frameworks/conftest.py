"""A dataset whose batches tell their epoch, for loaders in the test's own process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loader_arguments import loader_arguments

from launcher.data import DataLoader

PIPELINE = """
import numpy as np

class Numbers:
    def __init__(self, length=50):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return {"x": np.random.rand(4).astype(np.float32), "labels": index % 2, "index": index}

def train_set():
    return Numbers()

def test_set():
    return Numbers()

def odd_set():
    return Numbers(51)
"""


@pytest.fixture
def make_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., DataLoader]:
    """Make a loader of 7 batches in an epoch."""
    name = f"pipeline_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(PIPELINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for variable in ("RANK", "WORLD_SIZE", "LAUNCHER_RECEIVER"):
        monkeypatch.delenv(variable, raising=False)

    def make(dataset: str = "train_set", **options: Any) -> DataLoader:
        options = {"batch_size": 8, "shuffle": True, "tensors": True, **options}
        return DataLoader(f"{name}:{dataset}", **loader_arguments(**options))

    return make


@pytest.fixture
def batches_of(make_loader: Callable[..., DataLoader]) -> Callable[..., list[list[int]]]:
    """Return what the epochs of a dataset hold, batch by batch."""

    def read(*epochs: int, dataset: str = "train_set") -> list[list[int]]:
        loader, found = make_loader(dataset, name="expected"), []
        for epoch in epochs:
            loader.set_epoch(epoch)
            found += [noted(batch) for batch in loader]
        return found

    return read


def noted(batch: dict[str, Any]) -> list[int]:
    """Return the samples of a batch with the first digits of their noise."""
    return [*batch["index"].tolist(), *(batch["x"][:, 0] * 1e6).int().tolist()]


@pytest.fixture
def note() -> Callable[[dict[str, Any]], list[int]]:
    return noted


@pytest.fixture(autouse=True)
def reset_accelerate() -> Iterator[None]:
    """Leave no state of Accelerate's to the tests that run in this process later."""
    yield
    if state := sys.modules.get("accelerate.state"):
        state.AcceleratorState._reset_state(reset_partial_state=True)
        state.GradientState._reset_state()
