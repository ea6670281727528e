"""The part of the job document on the group that trains, or leads a job of script groups.

It holds the settings for how the group's ranks share a model.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.errors import ContractError
from launcher.shared.variables import PARALLEL_VARIABLE


class Schedule(str, enum.Enum):
    """The order in which stages work on microbatches.

    With p ranks, v stages on each and m microbatches, all schedules but the last idle for (p - 1) /
    (v m + p - 1) of a step. The first two names are those of SageMaker's model-parallel library v1.
    """

    #: GPipe: all forward passes, then all backward passes; activations of m microbatches are alive.
    SIMPLE = "simple"
    #: 1F1B: a stage runs a backward pass as soon as it can; min(m, p - stage) are alive. With
    #: several stages per rank it is Megatron's interleaved schedule (arXiv 2104.04473).
    INTERLEAVED = "interleaved"
    #: Gradients of weights are computed in otherwise idle time (ZB1P of arXiv 2401.10241).
    ZERO_BUBBLE = "zero_bubble"


class Objective(str, enum.Enum):
    """The quantity that the cuts of a model minimize."""

    SPEED = "speed"  # the seconds of a step
    MEMORY = "memory"  # the bytes of the rank with the most


SCHEDULES = tuple(each.value for each in Schedule)
OBJECTIVES = tuple(each.value for each in Objective)
PLACEMENTS = ("cluster", "spread")
PRECISIONS = ("bf16", "fp16")
COMPRESSIONS = ("fp16", "bf16", "int8", "power_sgd")


@dataclass(frozen=True, kw_only=True)
class ParallelPart:
    """A rank's parallel settings: the degrees, where the model is cut, and how memory is saved.

    partitions: ranks that the model is cut for; microbatches: parts of a batch that pass through
        them.
    accumulation: batches that a replica reads for one optimizer step.
    schedule: the order in which the stages work, one of SCHEDULES; virtual_stages: stages per rank.
    shard_degree: replicas that share the parameters and the optimizer state of each stage (FSDP2).
    placement: which ranks are neighbours, one of PLACEMENTS.
    starts: the module at which each stage but the first begins.
    stages: alternatively, the stage of each module, with default_stage for all others.
    sharded: if true, replicas share parameters, gradients and optimizer state (FSDP2).
    compression: applied to the gradients that replicas exchange, one of COMPRESSIONS.
    precision: the dtype of the computation, one of PRECISIONS; None for the parameters' own.
    recomputed: modules whose activations are recomputed instead of kept.
    partition_file: the file that provides starts and related settings, "" for none. In the job
        document it is a name in the code channel, in a rank the file's path.
    auto_partition: if true, rank 0 finds the starts when the job begins, for `optimize`, "speed" or
        "memory", within memory_cap bytes per rank.
    """

    partitions: int = 1
    microbatches: int = 1
    accumulation: int = 1
    schedule: str = "interleaved"
    virtual_stages: int = 1
    shard_degree: int = 1
    placement: str = "cluster"
    starts: tuple[str, ...] = ()
    stages: Mapping[str, int] = field(default_factory=dict)
    default_stage: int = 0
    sharded: bool = False
    compression: str | None = None
    precision: str | None = None
    recomputed: tuple[str, ...] = ()
    partition_file: str = ""
    auto_partition: bool = False
    optimize: str = "speed"
    memory_cap: int | None = None

    @property
    def is_by_measure(self) -> bool:
        """True if a measurement decides the cuts, made in advance or by rank 0."""
        return bool(self.partition_file) or self.auto_partition

    def to_fields(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults; older runtimes then read the rest."""
        default = dataclasses.asdict(ParallelPart())
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(self).items()
            if value != default[name]
        }

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> ParallelPart:
        """Read the fields of a job document. Raises TypeError for an unknown field."""
        lists = {name: tuple(value) for name, value in raw.items() if isinstance(value, list)}
        return cls(**{**raw, **lists})

    def to_json(self) -> str:
        """Return the fields as JSON text."""
        return json.dumps(self.to_fields(), sort_keys=True)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ParallelPart:
        """Read the job's settings in one of its ranks; return the defaults outside of a job.

        Raises ContractError if the variable holds something else.
        """
        text = environ.get(PARALLEL_VARIABLE, "{}")
        try:
            return cls.from_fields(json.loads(text))
        except (ValueError, TypeError, AttributeError) as error:
            raise ContractError(
                f"{PARALLEL_VARIABLE} is {text!r}, which is invalid ({error}): Launcher sets this "
                "variable, so remove it from the job's environment"
            ) from error


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
