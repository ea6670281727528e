"""Instance groups: the machines of a job."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.client.spec.spec_names import names
from launcher.errors import Problem, SpecError
from launcher.shared import Lifetime, Ready, Role, choice_fix, did_you_mean

#: Instance types that mean this machine.
LOCAL_TYPES = ("local", "local_gpu")


@dataclass(frozen=True)
class InstanceGroup:
    """A named group of `instance_count` instances of one type, as in the SageMaker SDK.

    role: the role of the hosts, also accepted as text ("data"); None lets `infer_roles` decide.
    command: argument list of a program that every host of the group runs, without a shell; the
        group's role is then `command`. "python" is the job's Python; paths are relative to the
        code folder.
    ready: when the program counts as started, which the trainer waits for; None means at once. A
        mapping such as {"port": 50051} is accepted too.
    lifetime: "train": the program is stopped when training ends; "own": it exits by itself, and
        the job waits for it. None means "train" for a command, and "own" for a group that runs the
        script.
    alternatives: instance types to try, in this order, when AWS has no capacity for the first.
    requirements: the file in source_dir with the packages of these hosts, in place of
        requirements.txt.
    pass_hyperparameters: whether the command gets the hyperparameters as arguments, as a script.
    """

    instance_group_name: str
    instance_type: str
    instance_count: int = 1
    role: Role | None = None
    command: Sequence[str] = ()
    ready: Ready | None = None
    lifetime: Lifetime | None = None
    alternatives: Sequence[str] = ()
    requirements: str | None = None
    pass_hyperparameters: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "role", self._choice(Role, self.role))
        object.__setattr__(self, "lifetime", self._choice(Lifetime, self.lifetime))
        object.__setattr__(self, "alternatives", names(self.alternatives))
        if isinstance(self.command, list):
            object.__setattr__(self, "command", tuple(self.command))
        if isinstance(self.ready, Mapping):
            object.__setattr__(self, "ready", self._read_ready(self.ready))

    def _repr_html_(self) -> str:
        from launcher.client.spec.group_html import groups_html  # only notebooks need it

        return groups_html([self])

    def _choice(self, declared: type[enum.Enum], value: object) -> Any:
        """Convert text to an enum member; leave other values for the rules to check."""
        if not isinstance(value, str) or isinstance(value, declared):
            return value
        known = [member.value for member in declared]
        if value in known:
            return declared(value)
        noun = declared.__name__.lower()
        near = did_you_mean(value, known)
        raise self._error(
            noun,
            f'"{value}" is not a {noun}',
            f'write "{near}"' if near else f"write one of {', '.join(known)}",
        )

    def _read_ready(self, fields: Mapping[str, Any]) -> Ready:
        known = [field.name for field in dataclasses.fields(Ready)]
        if unknown := [name for name in fields if name not in known]:
            what = f'"{unknown[0]}" is not a sign of readiness'
            raise self._error("ready", what, choice_fix(unknown[0], known))
        return Ready(**fields)

    def _error(self, field: str, what: str, fix: str) -> SpecError:
        where = f"{field} of group {self.instance_group_name}"
        return SpecError([Problem(what=what, where=where, fix=fix)])

    @property
    def is_local(self) -> bool:
        """True if the group's hosts run on this machine."""
        return self.instance_type in LOCAL_TYPES


@dataclass(frozen=True, kw_only=True)
class CapacityRetry:
    """The retry policy when AWS has no capacity for a job: `attempts` in total.

    Each attempt tries every group's type and its alternatives; attempts are `wait_seconds` apart.
    """

    attempts: int = 10
    wait_seconds: int = 300
