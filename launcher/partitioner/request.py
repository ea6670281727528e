"""What the process is asked, and whether it can be asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.errors import Problem, SpecError
from launcher.partitions.costs import Link
from launcher.request.source import SourceTree
from launcher.spec import JobSpec, ModelParallel
from launcher.spec.findings import FieldPath, choice_fix, dotted
from launcher.spec.rules import check

PROFILES = ("measured", "estimated")
#: A field of the job that is checked which nobody gives.
_NOT_GIVEN = "processes_per_host"


@dataclass(frozen=True, kw_only=True)
class Request:
    """Fields as of `partition`. memory_cap: bytes. link: None where it is to be measured."""

    task: str
    source_dir: str
    hyperparameters: Mapping[str, Any]
    partitions: int
    microbatches: int
    replicas: int
    virtual_stages: int
    schedule: str
    objective: str
    memory_cap: int | None
    precision: str | None
    recomputed: tuple[str, ...]
    profile: str
    link: Link | None

    def to_json(self, output: Path) -> str:
        """output: where the answer goes."""
        link = self.link and {"latency": self.link.latency, "bandwidth": self.link.bandwidth}
        fields = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        return json.dumps({**fields, "link": link, "output": str(output)})

    def problems(self) -> Iterator[Problem]:
        """What a job that is to find the same when it begins would be refused for, and more."""
        try:
            job = self._job()
            check(job, SourceTree(job), _argument)
        except SpecError as error:
            yield from (each for each in error.problems if each.where != _NOT_GIVEN)
        if type(self.replicas) is not int or self.replicas < 1:
            yield Problem(
                what=f"replicas is {self.replicas!r}", where="replicas", fix="use 1 or more"
            )
        if self.profile not in PROFILES:
            fix = choice_fix(self.profile, PROFILES)
            yield Problem(what=f'"{self.profile}" is no profile', where="profile", fix=fix)

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
    """What a field of the job is called as an argument of `partition`."""
    return dotted(path[2:] if path[:1] == ("distribution",) and len(path) > 2 else path)
