"""The starter of MPI over the train group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.runtime.mpi import part
from launcher.runtime.starters.base import Starter


class MpiStarter(Starter):
    """mpirun on the leader, and its daemon on every other train host."""

    def run(self, program: Sequence[str]) -> None:
        """Run this host's ranks, which read themselves what to run, to their end."""
        part.run(self.host, self.reports, self.failure)

    def exits(self, code: int) -> Mapping[int, int]:
        """Return what each rank's own process has reported."""
        return self.reported_exits("exit-*")
