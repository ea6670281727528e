"""Batches for TensorFlow: of Launcher's loader, or of tf.data's own service.

    import launcher.data.tf

    dataset = launcher.data.tf.from_service(DataLoader("pipeline:train_set", batch_size=64))
    dataset = launcher.data.tf.distribute(tf.data.TFRecordDataset(files).map(decode).batch(64))

TensorFlow is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.data.tf.distributed_dataset import distribute
    from launcher.data.tf.loader_dataset import from_service

_HOMES = {"distribute": "distributed_dataset", "from_service": "loader_dataset"}

__all__ = ["distribute", "from_service"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
