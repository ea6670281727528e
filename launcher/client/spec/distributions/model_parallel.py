"""Pipeline parallelism under torchrun; `pipeline_rules` and `partition_rules` have its rules."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from launcher.client.spec.coerce import plain
from launcher.client.spec.distributions import partition_rules, pipeline_rules
from launcher.client.spec.distributions.torchrun_distribution import (
    TorchrunDistribution,
    parallel_part,
)
from launcher.client.spec.spec_names import names
from launcher.errors import FieldPath, Problem
from launcher.shared import DEFAULT_HANG_TIMEOUT, PARTITION_FILE, ParallelPart

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec
    from launcher.client.spec.rules.source_rules import SourceFiles
    from launcher.shared import PartitionFile


@dataclass(frozen=True, kw_only=True)
class ModelParallel(TorchrunDistribution):
    """Pipeline parallelism under torchrun: `partitions` ranks of the train group share a model.

    The remaining ranks train further replicas of the model. The model is cut by one of starts,
    stages, partition_file and auto_partition, or by the script itself.

    partitions: ranks that one model is split over; None means 2.
    virtual_stages: stages per partition; None means 1.
    microbatches: parts of a batch that pass through the stages one by one; None means 4.
    schedule: "interleaved" (the default for None) starts each backward pass as early as possible;
        "simple" runs all forward passes, then all backward passes; "zero_bubble" fills idle time
        with weight gradients.
    shard_degree: replicas that share the parameters and the optimizer state of each stage (FSDP2);
        must divide the number of replicas. Each still trains on its own batches.
    placement: which ranks are adjacent: the stages of a replica ("cluster") or the replicas of a
        stage ("spread").
    starts: the module at which each stage after the first begins.
    stages: the stage that each named module is pinned to; default_stage takes all others.
    partition_file: a file written by `launcher plan cut`, sent with the job. It provides the
        starts, and those of its settings that the job leaves unset.
    auto_partition: whether rank 0 profiles the model at job start and chooses the starts.
    optimize: the goal of auto_partition: "speed" (the default for None) or "memory".
    memory_cap: bytes that auto_partition may use per rank.
    processes_per_host, hang_timeout, accumulation, precision, recomputed, instance_groups: as for
        DataParallel.
    """

    word: ClassVar[str] = "model_parallel"

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
            for name in partition_rules.OF_PARTITIONS
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
        yield from partition_rules.find_problems(self)

    def problems_in(
        self, spec: JobSpec, files: SourceFiles, wrong: Set[FieldPath]
    ) -> Iterator[Problem]:
        """Find problems with the partition file, except those about fields in `wrong`."""
        if self.partition_file is not None:
            yield from partition_rules.find_problems_in(spec, self, files, wrong)
