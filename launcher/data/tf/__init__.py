"""Batches for TensorFlow: of Launcher's loader, or of tf.data's own service.

    import launcher.data.tf

    dataset = launcher.data.tf.from_service(DataLoader("pipeline:train_set", batch_size=64))
    dataset = launcher.data.tf.distribute(tf.data.TFRecordDataset(files).map(decode).batch(64))

TensorFlow is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.data.tf.distributed_dataset import distribute
    from launcher.data.tf.loader_dataset import (
        PREFETCH,
        common_spec,
        from_service,
        without_auto_shard,
    )

__all__ = ["distribute", "from_service"]

__getattr__ = open_door(__name__)
