"""Base classes for distributions: everything the rest of the client asks of one."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from launcher.client import catalogue
from launcher.client.spec.field_checks import name_problems, range_problems, word_problems
from launcher.errors import FieldPath, Problem
from launcher.shared import PRECISIONS, Launch, ParallelPart, TrainerPart

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec
    from launcher.client.spec.rules.source_rules import SourceFiles
    from launcher.shared import PartitionFile


class Distribution(ABC):
    """A way to spread training over processes: a frozen dataclass whose fields are its YAML.

    A subclass is listed in `registry`, or in the entry point group "launcher.distributions" of
    another package. Its ranks are started by the runtime's starter for the `launch` word of its
    `trainer_part`.

    word: its key in YAML. sdk_v2_keys: its keys in the `distribution` of SageMaker SDK v2.
    sdk_v2_group_keys: those that mean it only beside `instance_groups`, which v2 has no way to
    obey; without groups, the request is v2's own.
    runs_launcher: whether Launcher starts the hosts; if not, AWS's toolkit does.
    runs_tasks: whether it can run a Task with our trainers. needs_torch: whether its hosts need
    torch. programs: other programs that its hosts need, each with how to install it.
    has_whole_rank: whether one rank alone runs the whole program, as `launcher run --debug` does.
    variables: those that its starter sets for each rank, beside those of every rank.
    """

    word: ClassVar[str]
    sdk_v2_keys: ClassVar[tuple[str, ...]] = ()
    sdk_v2_group_keys: ClassVar[tuple[str, ...]] = ()
    runs_launcher: ClassVar[bool] = True
    runs_tasks: ClassVar[bool] = False
    needs_torch: ClassVar[bool] = False
    has_whole_rank: ClassVar[bool] = True
    programs: ClassVar[Mapping[str, str]] = {}
    variables: ClassVar[Sequence[str]] = ()

    #: The group whose hosts serve the train group and do not run the script, if it has one.
    server_group: str | None = None
    #: The group on whose hosts it runs, if the job has several that run the script; a field of the
    #: distributions that can be limited to a group.
    instance_groups: Sequence[str] = ()

    # YAML

    @classmethod
    def noun(cls) -> str:
        """Return its name in messages about its fields."""
        return f"the distribution {cls.word}"

    @classmethod
    def title(cls) -> str:
        """Return its name in messages about the job."""
        return cls.word

    @classmethod
    def is_meant_by(cls, words: Set[object]) -> bool:
        """Return whether a document with these words, or keys, describes this distribution."""
        return words == {cls.word}

    @classmethod
    def is_meant_in(cls, written: object) -> bool:
        """Return whether a written distribution describes this one, by its words if it has any."""
        if isinstance(written, str):
            return cls.is_meant_by({written})
        return isinstance(written, Mapping) and cls.is_meant_by(set(written))

    @classmethod
    def expanded(cls, value: object, path: FieldPath) -> tuple[object, FieldPath]:
        """Expand a written distribution to its fields; return them and the path that they have."""
        if value == cls.word:
            return {}, path
        if isinstance(value, Mapping) and list(value) == [cls.word]:
            return value[cls.word] or {}, (*path, cls.word)
        return value, path

    def written(self, fields: Mapping[str, object]) -> object:
        """Return what a document holds, given the fields that differ from their defaults."""
        return {self.word: fields}

    @classmethod
    def schema(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON schema of what a document may hold, given the schema of its fields."""
        inner = {"anyOf": [fields, {"type": "null"}]}
        return {
            "anyOf": [
                {"const": cls.word},
                {
                    "type": "object",
                    "properties": {cls.word: inner},
                    "required": [cls.word],
                    "additionalProperties": False,
                },
            ]
        }

    @classmethod
    def from_sdk_v2(cls, strategies: Mapping[str, object]) -> Distribution:
        """Convert SDK v2's strategies, of which at least one is among `sdk_v2_keys`."""
        return cls()

    @property
    def toolkit_strategies(self) -> Mapping[str, Any] | None:
        """SDK v2's strategies for AWS's toolkit; None unless the toolkit starts the job."""
        return None

    # Rules

    @abstractmethod
    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with its fields, and with what the job has beside it."""

    def problems_in(
        self, spec: JobSpec, files: SourceFiles, wrong: Set[FieldPath]
    ) -> Iterator[Problem]:
        """Find problems with the files that it names, except those about fields in `wrong`."""
        return iter(())

    # The job

    def anchored(self, absolute: Callable[[str], str]) -> Distribution:
        """Return a copy in which every local path is absolute."""
        return self

    def completed(self, partition: PartitionFile) -> Distribution:
        """Return a copy with the settings of the job's partition file."""
        return self

    @abstractmethod
    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document; instance_type: that of its hosts."""

    @classmethod
    @abstractmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> Distribution | None:
        """Return the distribution that has written this part; None if it is another's."""

    @property
    def path(self) -> FieldPath:
        """The path of its fields in the job."""
        return ("distribution", self.word)


def count_processes(given: int | None, instance_type: str) -> int:
    """Return the processes per host: those given, or one per accelerator; 1 for unknown types."""
    if given is not None:
        return given
    known = catalogue.find(instance_type)
    return known.processes if known else 1


_D = TypeVar("_D", bound="TorchrunDistribution")


class TorchrunDistribution(Distribution):
    """A distribution whose ranks torchrun starts, with settings that they read themselves."""

    runs_tasks: ClassVar[bool] = True
    needs_torch: ClassVar[bool] = True

    processes_per_host: int | None
    hang_timeout: int
    accumulation: int
    precision: str | None
    recomputed: Sequence[str]

    @property
    @abstractmethod
    def parallel(self) -> ParallelPart:
        """The settings that are sent to the ranks."""

    def processes_on(self, instance_type: str) -> int:
        """Return the processes per host of a type; 1 if the type is not in the catalogue."""
        return count_processes(self.processes_per_host, instance_type)

    def field_problems(self) -> Iterator[Problem]:
        """Find problems with the fields that each of these distributions has."""
        if self.processes_per_host is not None:
            processes = self.processes_per_host
            yield from range_problems((*self.path, "processes_per_host"), processes, 1)
        yield from range_problems((*self.path, "hang_timeout"), self.hang_timeout, 0)
        yield from range_problems((*self.path, "accumulation"), self.accumulation, 1)
        yield from word_problems((*self.path, "precision"), self.precision, PRECISIONS)
        yield from name_problems((*self.path, "recomputed"), self.recomputed)

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document."""
        return TrainerPart(
            entry_point=spec.script,
            task=spec.task,
            launch=Launch.TORCHRUN,
            processes_per_host=self.processes_on(instance_type),
            hang_timeout=self.hang_timeout,
            parallel=self.parallel,
        )

    @classmethod
    def from_trainer_part(cls: type[_D], trainer: TrainerPart) -> _D | None:
        """Return the distribution with the ranks' settings that it has fields for.

        The partition file itself stays with the job; its settings are already among the ranks'.
        """
        if trainer.launch != Launch.TORCHRUN:
            return None
        make: Callable[..., _D] = cls
        taken = vars(make()).keys() - {"partition_file"}
        default = vars(make().parallel)
        told = {
            name: value
            for name, value in vars(trainer.parallel).items()
            if name in taken and value != default[name]
        }
        return make(
            processes_per_host=trainer.processes_per_host,
            hang_timeout=trainer.hang_timeout,
            **told,
        )


def parallel_part(distribution: TorchrunDistribution, **unsaid: int) -> ParallelPart:
    """Return a distribution's settings for the ranks; `unsaid` holds the defaults for None."""
    told = {part.name for part in dataclasses.fields(ParallelPart)}
    said = {
        name: value
        for name, value in vars(distribution).items()
        if name in told and value is not None
    }
    return ParallelPart(**{**unsaid, **said})
