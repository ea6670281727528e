"""The part of the job document on the group that trains, or leads a job of script groups."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.shared.parallel_part import ParallelPart


class Launch(str, enum.Enum):
    """The starters that come with Launcher; those of other packages have other names."""

    PYTHON = "python"
    TORCHRUN = "torchrun"
    MPI = "mpi"
    MULTI_WORKER_MIRRORED = "multi_worker_mirrored"
    PARAMETER_SERVER = "parameter_server"
    JAX = "jax"


#: Those that every runtime since version 3 of the document has.
_FIRST_LAUNCHES = frozenset({Launch.PYTHON, Launch.TORCHRUN, Launch.MPI})
#: Seconds without progress after which a rank that waits for others counts as hung.
DEFAULT_HANG_TIMEOUT = 1800


@dataclass(frozen=True, kw_only=True)
class TrainerPart:
    """The train group's script (below the code folder) or task, and how it is started.

    launch: the name of the starter that runs each train host's ranks.
    hang_timeout: seconds that a rank may wait in one place for others; 0 for no limit.
    mpi_options: the user's own options for mpirun.
    task: "module:function", the function that makes a Task for Launcher's own trainer; entry_point
        is then empty.
    parallel: the settings that each rank finds in its variable LAUNCHER_PARALLEL.
    settings: what only the starter reads, as JSON holds it.
    group: in a job without a train group, the script group that the others refer to; the starter
        runs on its hosts only.
    """

    entry_point: str = ""
    launch: str = Launch.PYTHON
    processes_per_host: int = 1
    hang_timeout: int = DEFAULT_HANG_TIMEOUT
    mpi_options: tuple[str, ...] = ()
    task: str | None = None
    parallel: ParallelPart = field(default_factory=ParallelPart)
    settings: Mapping[str, object] = field(default_factory=dict)
    group: str | None = None

    @property
    def lowest_version(self) -> int:
        """The lowest version of the job document that supports these settings."""
        if self.parallel.shard_degree > 1:
            return 9
        if self.settings or self.launch not in _FIRST_LAUNCHES:
            return 7
        if self.parallel.is_by_measure:
            return 6
        if self.task is not None or self.parallel != ParallelPart():
            return 5
        return 3 if self.launch == Launch.MPI else 1

    def to_fields(self) -> dict[str, Any]:
        """Return the fields as JSON holds them."""
        parallel = self.parallel.to_fields()
        return {
            "entry_point": self.entry_point,
            "launch": _starter_name(self.launch),
            "processes_per_host": self.processes_per_host,
            "hang_timeout": self.hang_timeout,
            **({"mpi_options": list(self.mpi_options)} if self.mpi_options else {}),
            **({"task": self.task} if self.task else {}),
            **({"parallel": parallel} if parallel else {}),
            **({"settings": dict(self.settings)} if self.settings else {}),
            **({"group": self.group} if self.group else {}),
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> TrainerPart:
        """Read the fields of a job document."""
        return cls(
            entry_point=raw["entry_point"],
            launch=_starter_name(raw["launch"]),
            processes_per_host=raw["processes_per_host"],
            hang_timeout=raw.get("hang_timeout", DEFAULT_HANG_TIMEOUT),
            mpi_options=tuple(raw.get("mpi_options", ())),
            task=raw.get("task"),
            parallel=ParallelPart.from_fields(raw.get("parallel", {})),
            settings=dict(raw.get("settings", {})),
            group=raw.get("group"),
        )


def _starter_name(launch: str) -> str:
    """Return the name of a starter as plain text; raise TypeError for other values."""
    if not isinstance(launch, str):
        raise TypeError(f"launch is {launch!r}")
    return launch.value if isinstance(launch, Launch) else launch
