"""Pipeline parallelism under torchrun, with the rules for measured cuts.

`pipeline_rules` has the rules for ranks, cuts and schedules.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from launcher.client.spec.distributions import pipeline_rules
from launcher.client.spec.distributions.base import (
    TorchrunDistribution,
    parallel_part,
)
from launcher.client.spec.field_checks import range_problems, word_problems
from launcher.client.spec.job_parts import names, plain
from launcher.errors import FieldPath, ParallelError, Problem
from launcher.shared import DEFAULT_HANG_TIMEOUT, OBJECTIVES, PARTITION_FILE, ParallelPart, shown

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec
    from launcher.client.spec.rules.source_rules import SourceFiles
    from launcher.shared import PartitionFile


@dataclass(frozen=True, kw_only=True)
class ModelParallel(TorchrunDistribution):
    """Pipeline parallelism under torchrun: `partitions` ranks of the train group share a model.

    The remaining ranks train further replicas of the model. The model is cut by one of starts,
    stages, partition_file and auto_partition, or by the script itself.

    partitions: ranks that one model is split over; None means 2. It must divide the number of
        ranks.
    virtual_stages: stages per partition; None means 1. Not with the schedule "simple".
    microbatches: parts of a batch that pass through the stages one by one; None means 4. At least
        partitions, unless the schedule is "simple".
    schedule: "interleaved" (the default for None) starts each backward pass as early as possible;
        "simple" runs all forward passes, then all backward passes; "zero_bubble" fills idle time
        with weight gradients.
    shard_degree: replicas that share the parameters and the optimizer state of each stage (FSDP2);
        must divide the number of replicas. Each still trains on its own batches.
    placement: which ranks are adjacent: the stages of a replica ("cluster") or the replicas of a
        stage ("spread").
    starts: the module at which each stage after the first begins: partitions x virtual_stages - 1
        names.
    stages: the stage that each named module is pinned to.
    default_stage: the stage of all others, or the later one whose data they need.
    partition_file: a file written by `launcher plan cut`, sent with the job. It provides the
        starts, and those of its settings that the job leaves unset.
    auto_partition: whether rank 0 profiles the model at job start and chooses the starts.
    optimize: the goal of auto_partition: "speed" (the default for None) or "memory".
    memory_cap: bytes that auto_partition may use per rank.
    processes_per_host, hang_timeout, accumulation, precision, recomputed, instance_groups: as for
        data_parallel.
    """

    word: ClassVar[str] = "model_parallel"
    has_whole_rank: ClassVar[bool] = False

    partitions: int | None = None
    microbatches: int | None = None
    schedule: str | None = None
    virtual_stages: int | None = None
    shard_degree: int = 1
    placement: str = "cluster"
    starts: Sequence[str] = ()
    stages: Mapping[str, int] = field(default_factory=dict)
    default_stage: int = 0
    partition_file: str | None = None
    auto_partition: bool = False
    optimize: str | None = None
    memory_cap: int | None = None
    precision: str | None = None
    recomputed: Sequence[str] = ()
    accumulation: int = 1
    processes_per_host: int | None = None
    hang_timeout: int = DEFAULT_HANG_TIMEOUT
    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))
        object.__setattr__(self, "starts", names(self.starts))
        object.__setattr__(self, "stages", plain(self.stages))
        object.__setattr__(self, "recomputed", names(self.recomputed))
        if isinstance(self.partition_file, os.PathLike):
            object.__setattr__(self, "partition_file", os.fspath(self.partition_file))

    @property
    def parallel(self) -> ParallelPart:
        """The settings that are sent to the ranks; a partition file under its name in the job."""
        name = "" if self.partition_file is None else PARTITION_FILE
        part = parallel_part(self, partitions=2, microbatches=4)
        return dataclasses.replace(part, partition_file=name)

    def completed(self, partition: PartitionFile) -> ModelParallel:
        """Return a copy with the starts of a partition and its values for settings unset here."""
        unsaid = {
            name: getattr(partition, name)
            for name in OF_PARTITIONS
            if getattr(self, name) in (None, ())
        }
        return dataclasses.replace(self, starts=partition.starts, **unsaid)

    def anchored(self, absolute: Callable[[str], str]) -> ModelParallel:
        """Return a copy in which the partition file's path is absolute."""
        if not isinstance(self.partition_file, str):
            return self
        return dataclasses.replace(self, partition_file=absolute(self.partition_file))

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with its fields, and with the ranks that the job has for it."""
        yield from self.field_problems()
        yield from pipeline_rules.find_problems(spec, self)
        yield from partition_problems(self)

    def problems_in(
        self, spec: JobSpec, files: SourceFiles, wrong: Set[FieldPath]
    ) -> Iterator[Problem]:
        """Find problems with the partition file, except those about fields in `wrong`."""
        if self.partition_file is not None:
            yield from partition_problems_in(spec, self, files, wrong)


#: Settings that the partition file provides where the job leaves them unset.
OF_PARTITIONS = (
    "partitions",
    "microbatches",
    "virtual_stages",
    "schedule",
    "precision",
    "recomputed",
)
_MODEL: FieldPath = ("distribution", "model_parallel")
_FILE: FieldPath = (*_MODEL, "partition_file")
_BY_HAND = ("starts", "stages", "default_stage")


def partition_problems(model: ModelParallel) -> Iterator[Problem]:
    """Find problems with the settings of the cuts that do not depend on the file."""
    if model.partition_file is not None:
        yield from _problems_beside(model, "partition_file", (*_BY_HAND, "auto_partition"))
    elif model.auto_partition:
        yield from _problems_beside(model, "auto_partition", _BY_HAND)
    if model.partition_file == "":
        fix = "name a file that `launcher plan cut` has made, or remove it"
        yield Problem(path=_FILE, what="partition_file is empty", fix=fix)
    if not model.auto_partition:
        yield from _problems_of_nothing_to_find(model)
    yield from word_problems((*_MODEL, "optimize"), model.optimize, OBJECTIVES)
    if model.memory_cap is not None:
        yield from range_problems((*_MODEL, "memory_cap"), model.memory_cap, 1)


def partition_problems_in(
    spec: JobSpec, model: ModelParallel, files: SourceFiles, wrong: Set[FieldPath]
) -> Iterator[Problem]:
    """Find problems with the partition file, except those about fields in `wrong`."""
    try:
        partition = files.partition
    except ParallelError as error:
        fix = "name a file that `launcher plan cut` has made"
        yield Problem(path=_FILE, what=str(error), fix=fix)
        return
    if partition is not None:
        found = list(_differences(model, partition)) or _problems_of_the_whole(
            spec, model, partition
        )
        yield from (each for each in found if not each.depends_on(wrong))


def _differences(model: ModelParallel, partition: PartitionFile) -> Iterator[Problem]:
    """Find settings that differ between the job and the file."""
    for name in OF_PARTITIONS:
        said, has = getattr(model, name), getattr(partition, name)
        if said not in (None, (), has):
            yield Problem(
                path=(*_MODEL, name),
                about=(_FILE,),
                what=f"{name} is {_shown(said)}, and {_name(model)} has {_shown(has)}",
                fix="remove it, or let `launcher plan cut` make a file for it",
            )
    if model.shard_degree < partition.shard_degree:
        degree = partition.shard_degree
        yield Problem(
            path=(*_MODEL, "shard_degree"),
            about=(_FILE,),
            what=f"{_name(model)} was made for shard_degree={degree}, and the job has "
            f"{model.shard_degree}: its ranks would need more memory than predicted",
            fix=f"write shard_degree: {degree}, or let `launcher plan cut` make another file",
        )


def _problems_of_the_whole(
    spec: JobSpec, model: ModelParallel, partition: PartitionFile
) -> Iterator[Problem]:
    """Find problems with the job after the settings of its file are filled in."""
    whole = dataclasses.replace(model.completed(partition), partition_file=None)
    for found in (*whole.field_problems(), *pipeline_rules.find_problems(spec, whole)):
        if found.path == (*_MODEL, "shard_degree"):  # the job sets it beside the file
            yield found
            continue
        what, fix = f"{_name(model)}: {found.what}", f"make another file: {found.fix}"
        yield dataclasses.replace(found, path=_FILE, what=what, fix=fix)


def _name(model: ModelParallel) -> str:
    return PurePath(model.partition_file or "").name


def _shown(value: object) -> str:
    return shown(list(value) if isinstance(value, tuple) else value)


def _problems_beside(model: ModelParallel, chosen: str, others: Iterable[str]) -> Iterator[Problem]:
    for name in others:
        if getattr(model, name):
            yield Problem(
                path=(*_MODEL, name),
                about=((*_MODEL, chosen),),
                what=f"{name} is given beside {chosen}",
                fix="remove one of them: a model is cut in one way",
            )


def _problems_of_nothing_to_find(model: ModelParallel) -> Iterator[Problem]:
    """Find settings of auto_partition in a job that does not use it."""
    for name in ("optimize", "memory_cap"):
        if getattr(model, name) is not None:
            yield Problem(
                path=(*_MODEL, name),
                about=((*_MODEL, "auto_partition"),),
                what=f"{name} is given, and auto_partition is not",
                fix="remove it: the partition file already decides it"
                if model.partition_file
                else "write auto_partition: true, or remove it",
            )
