"""What the process is asked, and whether it can be asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.contract import OBJECTIVES
from launcher.errors import Problem, SpecError
from launcher.partitions.costs import Link
from launcher.request.source import SourceTree
from launcher.spec import JobSpec, ModelParallel
from launcher.spec.findings import FieldPath, choice_fix, dotted
from launcher.spec.rules import check

PROFILES = ("measured", "estimated")
#: Fields of the job that is checked which nobody gives: where its model is cut is what is asked.
_NOT_GIVEN = ("starts", "processes_per_host")


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
        """What a job that is so cut would be refused for, and more."""
        try:
            job = self._job()
            check(job, SourceTree(job), _argument)
        except SpecError as error:
            yield from (each for each in error.problems if each.where not in _NOT_GIVEN)
        yield from _not_a_count("replicas", self.replicas)
        if self.memory_cap is not None:
            yield from _not_a_count("memory_cap", self.memory_cap)
        yield from _not_one_of("optimize", self.objective, OBJECTIVES)
        yield from _not_one_of("profile", self.profile, PROFILES)

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
            ),
        )


def _argument(path: FieldPath) -> str:
    """What a field of the job is called as an argument of `partition`."""
    return dotted(path[2:] if path[:1] == ("distribution",) and len(path) > 2 else path)


def _not_a_count(name: str, value: object) -> Iterator[Problem]:
    if type(value) is not int or value < 1:
        yield Problem(what=f"{name} is {value!r}", where=name, fix="use 1 or more")


def _not_one_of(name: str, word: str, known: tuple[str, ...]) -> Iterator[Problem]:
    if word not in known:
        fix = choice_fix(word, known)
        yield Problem(what=f'"{word}" is no known {name}', where=name, fix=fix)
