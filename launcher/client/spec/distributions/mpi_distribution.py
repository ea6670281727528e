"""Training under Open MPI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from launcher.client.spec.distributions.base import Distribution, count_processes
from launcher.client.spec.job_parts import names
from launcher.errors import Problem, SpecError
from launcher.shared import Launch, TrainerPart, shown, split_mpi_options

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

#: Options of mpirun that Launcher sets itself.
_OWN_OPTIONS = ("host", "H", "hostfile", "machinefile", "np", "n", "c")
_OWN_PARAMETERS = ("plm_rsh_agent", "plm_rsh_no_tree_spawn", "orte_leave_session_attached")


@dataclass(frozen=True, kw_only=True)
class Mpi(Distribution):
    """The training script under Open MPI's mpirun, on the hosts of the train group.

    The image must contain Open MPI; neither ssh nor keys are needed.

    processes_per_host: as for DataParallel.
    custom_options: arguments for mpirun, which override Launcher's own for the same option:
        ("--mca", "btl_tcp_links", "4").
    instance_groups: as for DataParallel.
    """

    word: ClassVar[str] = "mpi"
    sdk_v2_keys: ClassVar[tuple[str, ...]] = ("mpi",)
    programs: ClassVar[Mapping[str, str]] = {
        "mpirun": "on Debian and Ubuntu: apt-get install openmpi-bin"
    }

    processes_per_host: int | None = None
    custom_options: Sequence[str] = ()
    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))
        object.__setattr__(self, "custom_options", names(self.custom_options))

    def processes_on(self, instance_type: str) -> int:
        """Return the processes per host of a type; 1 if the type is not in the catalogue."""
        return count_processes(self.processes_per_host, instance_type)

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with its fields."""
        if self.processes_per_host is not None and self.processes_per_host < 1:
            what = f"processes_per_host is {self.processes_per_host}"
            yield Problem(path=(*self.path, "processes_per_host"), what=what, fix="use 1 or more")
        for index, word in enumerate(self.custom_options):
            here = (*self.path, "custom_options", index)
            if _is_own(word):
                what = f'mpirun\'s "{word}" is set by Launcher itself'
                yield Problem(
                    path=here, what=what, fix="remove it; use processes_per_host for counts"
                )
            elif not word.strip() or "\0" in word:
                yield Problem(path=here, what="a word for mpirun is empty", fix="remove it")

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document."""
        return TrainerPart(
            entry_point=spec.script,
            launch=Launch.MPI,
            processes_per_host=self.processes_on(instance_type),
            hang_timeout=0,  # MPI programs have timeouts of their own
            mpi_options=tuple(self.custom_options),
        )

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> Mpi | None:
        """Return the distribution that has written this part; None if it is another's."""
        if trainer.launch != Launch.MPI:
            return None
        return cls(
            processes_per_host=trainer.processes_per_host, custom_options=trainer.mpi_options
        )

    @classmethod
    def from_sdk_v2(cls, strategies: Mapping[str, Any]) -> Mpi:
        """Split SDK v2's options for mpirun; turn its --NCCL_DEBUG into an exported variable.

        Raises SpecError for options that are not text, or that a shell could not split.
        """
        given = strategies["mpi"]
        options = given if isinstance(given, Mapping) else {}
        words = _split(options.get("custom_mpi_options") or "")
        return cls(
            processes_per_host=options.get("processes_per_host"), custom_options=tuple(words)
        )


def _split(options: object) -> list[str]:
    where, fix = "distribution.mpi.custom_mpi_options", 'write text: "-x NCCL_DEBUG=INFO"'
    if not isinstance(options, str):
        what = f"custom_mpi_options is {shown(options)}, which is not text"
        raise SpecError([Problem(what=what, where=where, fix=fix)])
    try:
        return split_mpi_options(options)
    except ValueError as error:
        what = f"custom_mpi_options {shown(options)} cannot be split into words: {error}"
        raise SpecError([Problem(what=what, where=where, fix=fix)]) from error


def _is_own(word: str) -> bool:
    """Return whether a word for mpirun is an option or a parameter that Launcher sets itself."""
    is_option = word.startswith("-")  # one dash is as good as two
    return word.lstrip("-") in _OWN_OPTIONS if is_option else word in _OWN_PARAMETERS
