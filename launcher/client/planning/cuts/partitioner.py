"""`launcher.partition`: profile a task's model and find its best cuts.

The process that it starts, launcher.trainers.partition_task, finds the cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TypeVar

from launcher.client.planning.cuts.partition_request import PartitionRequest
from launcher.client.planning.cuts.partition_view import Partition
from launcher.client.planning.workloads.task_subprocess import run_task_program
from launcher.errors import Problem, SpecError
from launcher.shared import Link, parse_bandwidth, parse_bytes, parse_seconds

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
