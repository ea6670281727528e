"""The starter of TensorFlow's MultiWorkerMirroredStrategy."""

from __future__ import annotations

from launcher.runtime.starters.tensorflow_starter import TensorflowStarter
from launcher.runtime.tensorflow.tf_config import mirrored_config


class MultiWorkerMirroredStarter(TensorflowStarter):
    """One process on each train host, with TF_CONFIG; it uses all GPUs of its host."""

    def variables(self) -> dict[str, str]:
        """Return what torchrun would set, which the data loader reads, and TF_CONFIG."""
        return {**super().variables(), **mirrored_config(self.host.environment)}
