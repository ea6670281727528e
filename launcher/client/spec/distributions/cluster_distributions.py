"""Distributions of other frameworks: one script per host for TensorFlow and JAX, and Open MPI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from launcher.client.spec.distributions.base import Distribution, count_processes
from launcher.client.spec.field_checks import groups_with_paths
from launcher.client.spec.job_parts import names
from launcher.client.spec.roles import job_roles, leading_group
from launcher.errors import Problem, SpecError
from launcher.shared import Launch, TrainerPart, choice_fix, shown, split_mpi_options

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


_SERVER_GROUP = "server_group"
_GROUPS = "write instance_groups: one that trains, and one that holds the parameters"


@dataclass(frozen=True, kw_only=True)
class ParameterServer(Distribution):
    """TensorFlow's ParameterServerStrategy: a chief, workers, and servers that hold the parameters.

    The train group's first host is the chief and alone runs the script; its other hosts are the
    workers. On these and on the server group's hosts Launcher runs tf.distribute.Server.

    server_group: the group whose hosts hold the parameters. None starts such a server on each
        train host, beside its worker or the chief, as AWS's toolkit does.
    instance_groups: as for DataParallel.
    """

    word: ClassVar[str] = "parameter_server"
    has_whole_rank: ClassVar[bool] = False
    variables: ClassVar[Sequence[str]] = ("TF_CONFIG",)
    sdk_v2_group_keys: ClassVar[tuple[str, ...]] = ("parameter_server",)

    server_group: str | None = None
    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))

    @classmethod
    def is_meant_in(cls, written: object) -> bool:
        """Return whether a document means this one: SDK v2's dictionary has "enabled" there."""
        if written == cls.word:
            return True
        if not isinstance(written, Mapping) or list(written) != [cls.word]:
            return False
        fields = written[cls.word]
        return not (isinstance(fields, Mapping) and "enabled" in fields)

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with the groups of servers and of workers."""
        yield from evaluator_problems(spec)
        yield from self._server_problems(spec)
        yield from self._worker_problems(spec)
        if spec.data_service is not None:
            yield Problem(
                path=("data_service",),
                about=(self.path,),
                what="workers of parameter servers read their data inside TensorFlow, where no "
                "data service reaches them",
                fix="remove it, or use multi_worker_mirrored",
            )

    def _server_problems(self, spec: JobSpec) -> Iterator[Problem]:
        if self.server_group is None:
            return
        path = (*self.path, _SERVER_GROUP)
        groups = {group.instance_group_name: group for group in spec.groups}
        group = groups.get(self.server_group) if spec.instance_groups else None
        if group is None:
            what = f'the servers run on group "{self.server_group}", which is not in the job'
            fix = choice_fix(self.server_group, groups) if spec.instance_groups else _GROUPS
            yield Problem(path=path, what=what, fix=fix)
        elif group.command or group.role is not None or self.server_group in self.instance_groups:
            what = f'the servers run on group "{self.server_group}", which has other work'
            fix = "remove its role and its command: its hosts run servers alone"
            yield Problem(path=path, what=what, fix=fix)

    def _worker_problems(self, spec: JobSpec) -> Iterator[Problem]:
        roles, unclear = job_roles(spec)
        group = leading_group(spec, roles)
        if group is not None and not unclear and group.instance_count < 2:
            yield Problem(
                path=self.path,
                about=(("instance_groups",), ("instance_count",)),
                what="parameter servers need a chief and a worker, and one host trains",
                fix="use 2 or more train hosts: the first is the chief, the others are workers",
            )

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document."""
        servers = {} if self.server_group is None else {_SERVER_GROUP: self.server_group}
        return TrainerPart(
            entry_point=spec.script, launch=Launch.PARAMETER_SERVER, settings=servers
        )

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> ParameterServer | None:
        """Return the distribution that has written this part; None if it is another's."""
        if trainer.launch != Launch.PARAMETER_SERVER:
            return None
        servers: Any = trainer.settings.get(_SERVER_GROUP)
        return cls(server_group=servers)


_EVALUATOR = "evaluator"


def evaluator_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find a group that would be an evaluator."""
    for path, group in groups_with_paths(spec):
        name = group.instance_group_name
        if group.command or _EVALUATOR not in re.findall(r"[a-z]+", name.lower()):
            continue
        yield Problem(
            path=path,
            about=(("distribution",),),
            what=f'group "{name}" would be an evaluator, which tf.distribute\'s strategies '
            "do not have",
            fix="give it a command that evaluates the checkpoints: "
            'command: ["python", "evaluate.py"]',
        )


@dataclass(frozen=True, kw_only=True)
class MultiWorkerMirrored(Distribution):
    """The script once per train host, with TF_CONFIG for tf.distribute.MultiWorkerMirroredStrategy.

    Each process uses all GPUs of its host. Hosts of other groups are not in TF_CONFIG.

    instance_groups: as for DataParallel.
    """

    word: ClassVar[str] = "multi_worker_mirrored"
    variables: ClassVar[Sequence[str]] = ("TF_CONFIG",)
    sdk_v2_group_keys: ClassVar[tuple[str, ...]] = ("multi_worker_mirrored_strategy",)

    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find problems with what the job has beside it; a cluster of one worker is allowed."""
        yield from evaluator_problems(spec)

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document."""
        return TrainerPart(entry_point=spec.script, launch=Launch.MULTI_WORKER_MIRRORED)

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> MultiWorkerMirrored | None:
        """Return the distribution that has written this part; None if it is another's."""
        return cls() if trainer.launch == Launch.MULTI_WORKER_MIRRORED else None


@dataclass(frozen=True, kw_only=True)
class Jax(Distribution):
    """The script once per train host, with the variables for jax.distributed.initialize.

    Each process uses all devices of its host, which is JAX's own default. Torch is not needed.

    instance_groups: as for DataParallel.
    """

    word: ClassVar[str] = "jax"
    variables: ClassVar[Sequence[str]] = (
        "JAX_COORDINATOR_ADDRESS",
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_ID",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES",
        "KERAS_DISTRIBUTION_NUM_PROCESSES",
        "KERAS_DISTRIBUTION_PROCESS_ID",
    )

    instance_groups: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "instance_groups", names(self.instance_groups))

    def problems(self, spec: JobSpec) -> Iterator[Problem]:
        """Find no problems: one process is a cluster, too."""
        return iter(())

    def trainer_part(self, spec: JobSpec, instance_type: str) -> TrainerPart:
        """Return the train group's part of the job document."""
        return TrainerPart(entry_point=spec.script, launch=Launch.JAX)

    @classmethod
    def from_trainer_part(cls, trainer: TrainerPart) -> Jax | None:
        """Return the distribution that has written this part; None if it is another's."""
        return cls() if trainer.launch == Launch.JAX else None


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
