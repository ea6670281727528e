"""Data for Keras end an epoch where their stream ends: with a stand-in for Keras's classes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from launcher.data import DataLoader

_ADAPTER = "keras.src.trainers.data_adapters.data_adapter"


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import launcher.data.keras over the stand-in."""
    parts = _ADAPTER.split(".")
    names = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    made = {name: ModuleType(name) for name in [*names, "keras.callbacks"]}
    made["keras"].__dict__["callbacks"] = made["keras.callbacks"]
    made["keras.callbacks"].__dict__["Callback"] = type("Callback", (), {})
    made[_ADAPTER].__dict__["DataAdapter"] = type("DataAdapter", (), {})
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "launcher.data.keras", raising=False)
    import launcher.data.keras

    yield launcher.data.keras
    del sys.modules["launcher.data.keras"]


class Stream:
    """24 samples; its `len()` promises 29."""

    def __len__(self) -> int:
        return 29

    def __iter__(self) -> Iterator[np.float32]:
        return map(np.float32, range(24))


def test_an_epoch_that_is_resumed_after_its_last_batch_ends_without_one(adapters: Any) -> None:
    def data() -> Any:
        found = adapters.LoaderDataset(DataLoader(Stream(), batch_size=4, tensors=False))
        found.track()
        return found

    first = data()
    batches = first.get_numpy_iterator()
    for _ in range(6):
        next(batches)
        first.record_trained(1)
    resumed = data()
    resumed.load_state_dict(first.state_dict())
    assert list(resumed.get_numpy_iterator()) == []
    assert resumed.record_trained(0)
    assert len(list(resumed.get_numpy_iterator())) == 6
