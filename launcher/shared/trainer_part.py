"""The train group's part of the job document."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.shared.parallel_part import ParallelPart


class Launch(str, enum.Enum):
    """The way a train host starts the user's script."""

    PYTHON = "python"
    TORCHRUN = "torchrun"
    MPI = "mpi"


#: Seconds without progress after which a rank that waits for others counts as hung.
DEFAULT_HANG_TIMEOUT = 1800


@dataclass(frozen=True, kw_only=True)
class TrainerPart:
    """The train group's script (below the code folder) or task, and how it is started.

    hang_timeout: seconds that a rank may wait in one place for others; 0 for no limit.
    mpi_options: the user's own options for mpirun.
    task: "module:function", the function that makes a Task for Launcher's own trainer; entry_point
        is then empty.
    parallel: the settings that each rank finds in its variable LAUNCHER_PARALLEL.
    """

    entry_point: str = ""
    launch: Launch = Launch.PYTHON
    processes_per_host: int = 1
    hang_timeout: int = DEFAULT_HANG_TIMEOUT
    mpi_options: tuple[str, ...] = ()
    task: str | None = None
    parallel: ParallelPart = field(default_factory=ParallelPart)

    @property
    def lowest_version(self) -> int:
        """The lowest version of the job document that supports these settings."""
        if self.parallel.is_by_measure:
            return 6
        if self.task is not None or self.parallel != ParallelPart():
            return 5
        return 3 if self.launch is Launch.MPI else 1

    def to_fields(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        parallel = self.parallel.to_fields()
        return {
            "entry_point": self.entry_point,
            "launch": self.launch.value,
            "processes_per_host": self.processes_per_host,
            "hang_timeout": self.hang_timeout,
            **({"mpi_options": list(self.mpi_options)} if self.mpi_options else {}),
            **({"task": self.task} if self.task else {}),
            **({"parallel": parallel} if parallel else {}),
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> TrainerPart:
        """Read the fields of a job document."""
        return cls(
            entry_point=raw["entry_point"],
            launch=Launch(raw["launch"]),
            processes_per_host=raw["processes_per_host"],
            hang_timeout=raw.get("hang_timeout", DEFAULT_HANG_TIMEOUT),
            mpi_options=tuple(raw.get("mpi_options", ())),
            task=raw.get("task"),
            parallel=ParallelPart.from_fields(raw.get("parallel", {})),
        )
