"""Base of the distributions that torchrun starts."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from launcher.client.spec.distributions.base import Distribution, count_processes
from launcher.client.spec.field_checks import name_problems, range_problems, word_problems
from launcher.errors import Problem
from launcher.shared import PRECISIONS, Launch, ParallelPart, TrainerPart

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


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
