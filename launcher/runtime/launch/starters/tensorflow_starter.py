"""The base of the starters of TensorFlow's strategies for several hosts."""

from __future__ import annotations

from launcher.runtime.host.job_host import HostFailed
from launcher.runtime.launch.starters.python_starter import PythonStarter
from launcher.runtime.tensorflow.keras_notice import with_ways_out


class TensorflowStarter(PythonStarter):
    """One process on a host; its failure says what Keras 3 cannot do under the strategy."""

    def failure(self, code: int) -> HostFailed:
        """Return the first cause; for an error inside Keras 3's `fit`, with the ways out."""
        return HostFailed(with_ways_out(super().failure(code).failure))
