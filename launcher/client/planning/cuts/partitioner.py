"""`launcher.partition`: profile a task's model and find its best cuts.

The process that it starts, launcher.trainers.partition_task, finds the cuts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from launcher.client.planning.cuts.partition_view import Partition
from launcher.client.planning.workloads.task_subprocess import run_task_program
from launcher.client.request import SourceTree
from launcher.client.spec import JobSpec, ModelParallel, check
from launcher.errors import FieldPath, Problem, SpecError, dotted
from launcher.shared import Link, choice_fix, parse_bandwidth, parse_bytes, parse_seconds

PROFILES = ("measured", "estimated")
#: A field of the checked job that is not an argument of `partition`.
_NOT_GIVEN = "processes_per_host"


@dataclass(frozen=True, kw_only=True)
class PartitionRequest:
    """A request, with the arguments of `partition`.

    memory_cap: bytes. link: None if it is to be measured.
    """

    task: str
    source_dir: str
    hyperparameters: Mapping[str, Any]
    partitions: int
    microbatches: int
    replicas: int
    shard_degree: int
    virtual_stages: int
    schedule: str
    objective: str
    memory_cap: int | None
    precision: str | None
    recomputed: tuple[str, ...]
    profile: str
    link: Link | None

    def to_message(self) -> Mapping[str, object]:
        """Return the fields as a JSON message."""
        link = self.link and {"latency": self.link.latency, "bandwidth": self.link.bandwidth}
        fields = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        return {**fields, "link": link}

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the request, including those of such an auto_partition job."""
        try:
            job = self._job()
            check(job, SourceTree(job), _argument)
        except SpecError as error:
            yield from (each for each in error.problems if each.where != _NOT_GIVEN)
        if type(self.replicas) is not int or self.replicas < 1:
            yield Problem(
                what=f"replicas is {self.replicas!r}", where="replicas", fix="use 1 or more"
            )
        elif type(self.shard_degree) is not int or self.shard_degree < 1:
            what = f"shard_degree is {self.shard_degree!r}"
            yield Problem(what=what, where="shard_degree", fix="use 1 or more")
        elif self.replicas % self.shard_degree:
            yield Problem(
                what=f"shard_degree is {self.shard_degree}, which does not divide the replicas: "
                f"{self.replicas}",
                where="shard_degree",
                fix="change one of them: replicas share their stages in sets of equal size",
            )
        if self.profile not in PROFILES:
            fix = choice_fix(self.profile, PROFILES)
            yield Problem(what=f'"{self.profile}" is not a profile', where="profile", fix=fix)

    def _job(self) -> JobSpec:
        return JobSpec(
            task=self.task,
            source_dir=self.source_dir,
            hyperparameters=self.hyperparameters,
            instance_type="local",
            instance_count=1,
            distribution=ModelParallel(
                partitions=self.partitions,
                processes_per_host=self.partitions,
                microbatches=self.microbatches,
                virtual_stages=self.virtual_stages,
                schedule=self.schedule,
                precision=self.precision,
                recomputed=self.recomputed,
                auto_partition=True,
                optimize=self.objective,
                memory_cap=self.memory_cap,
            ),
        )


def _argument(path: FieldPath) -> str:
    """Return the argument of `partition` that corresponds to a field of the job."""
    return dotted(path[2:] if path[:1] == ("distribution",) and len(path) > 2 else path)


T = TypeVar("T", int, float)

_EXAMPLES = {"memory_cap": "40GiB", "bandwidth": "12GiB/s", "latency": "20us"}


def partition(
    task: str,
    *,
    partitions: int,
    microbatches: int,
    optimize: str = "speed",
    memory_cap: int | str | None = None,
    virtual_stages: int = 1,
    schedule: str = "interleaved",
    profile: str = "measured",
    precision: str | None = None,
    recomputed: Sequence[str] = (),
    replicas: int = 1,
    shard_degree: int = 1,
    hyperparameters: Mapping[str, object] | None = None,
    source_dir: str | PathLike[str] = ".",
    bandwidth: float | str | None = None,
    latency: float | str | None = None,
) -> Partition:
    """Profile the model of a task, and find its best cuts.

    task: "module:name" in source_dir, a Task or a function that makes one from the hyperparameters.
    partitions, microbatches, virtual_stages, schedule, precision, recomputed: as for
        ModelParallel(...).
    replicas: number of data-parallel replicas that share the task's batch.
    shard_degree: how many of them share the parameters and optimizer state of a stage.
    optimize: "speed" for the shortest step, or "memory" for the least memory of the largest rank.
    memory_cap: the limit of a rank, in bytes or as a text like "40GiB".
    profile: "measured" runs the model here; "estimated" does not even create its weights.
    bandwidth, latency: of the link between ranks, bytes per second and seconds, or texts like
        "12GiB/s" and "20us"; by default it is measured on this machine.

    The output of the profiling process goes to stderr. Raises SpecError with everything that is
    wrong with the arguments; PlatformError where torch is not installed; ParallelError for a model
    that cannot be cut as asked.
    """
    problems: list[Problem] = []
    request = PartitionRequest(
        task=task,
        source_dir=str(Path(source_dir).absolute()),
        hyperparameters=hyperparameters or {},
        partitions=partitions,
        microbatches=microbatches,
        replicas=replicas,
        shard_degree=shard_degree,
        virtual_stages=virtual_stages,
        schedule=schedule,
        objective=optimize,
        memory_cap=_read("memory_cap", memory_cap, parse_bytes, problems),
        precision=precision,
        recomputed=tuple(recomputed),
        profile=profile,
        link=_link(bandwidth, latency, problems),
    )
    problems += request.problems()
    if problems:
        raise SpecError(problems)
    return Partition.from_json(run_task_program("partition_task", request.to_message()))


def _link(
    bandwidth: float | str | None, latency: float | str | None, problems: list[Problem]
) -> Link | None:
    seconds = _read("latency", latency, parse_seconds, problems)
    speed = _read("bandwidth", bandwidth, parse_bandwidth, problems)
    if bandwidth is None and latency is not None:
        what = "latency is given, and bandwidth is not"
        fix = "give both, or none: then the link is measured"
        problems.append(Problem(what=what, where="latency", fix=fix))
    return None if speed is None else Link(latency=seconds or 0.0, bandwidth=speed)


def _read(
    name: str, given: T | str | None, parse: Callable[[str], T], problems: list[Problem]
) -> T | None:
    """Return a number, which may be given as a text with a unit."""
    if not isinstance(given, str):
        return given
    try:
        return parse(given)
    except ValueError as error:
        fix = f"write for example {_EXAMPLES[name]}"
        problems.append(Problem(what=str(error), where=name, fix=fix))
        return None
