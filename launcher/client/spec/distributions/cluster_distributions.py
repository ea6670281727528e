"""One script per host, whose processes find each other by variables: TensorFlow, JAX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.field_checks import groups_with_paths
from launcher.client.spec.job_parts import names
from launcher.client.spec.roles import job_roles, leading_group
from launcher.errors import Problem
from launcher.shared import Launch, TrainerPart, choice_fix

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
