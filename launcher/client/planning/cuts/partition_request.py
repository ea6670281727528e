"""The arguments of `launcher.partition`, checked, as the request to the profiling process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.client.request import SourceTree
from launcher.client.spec import JobSpec, ModelParallel, check
from launcher.errors import FieldPath, Problem, SpecError, dotted
from launcher.shared import Link, choice_fix

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
