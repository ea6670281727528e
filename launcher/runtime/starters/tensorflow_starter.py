"""The base of the starters of TensorFlow's strategies for several hosts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from launcher.runtime.job_host import HostFailed
from launcher.runtime.starters.python_starter import PythonStarter
from launcher.runtime.tensorflow.keras_notice import warn_of_fit, with_ways_out


class TensorflowStarter(PythonStarter):
    """One process on a host, which is told of what Keras 3 cannot do under the strategy."""

    def run(self, program: Sequence[str]) -> None:
        """Run the one rank of this host to its end; the leader warns before the start."""
        _module, script, *_arguments = program
        environment = self.host.environment
        if environment.cluster.is_leader:
            code = environment.paths.code
            warn_of_fit(code, str(Path(script).relative_to(code)), self.host.variables)
        super().run(program)

    def failure(self, code: int) -> HostFailed:
        """Return the first cause; for an error inside Keras 3's `fit`, with the ways out."""
        return HostFailed(with_ways_out(super().failure(code).failure))
