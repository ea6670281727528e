"""Instance groups: the machines of a job."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.contract import Role
from launcher.errors import Problem, SpecError
from launcher.spec.findings import did_you_mean

#: Instance types that mean this machine.
LOCAL_TYPES = ("local", "local_gpu")


@dataclass(frozen=True)
class InstanceGroup:
    """`instance_count` instances of one type under one name; the shape of the SageMaker SDK's own.

    role: what the hosts do; None lets `infer_roles` say it. Its text ("data") is accepted too.
    """

    instance_group_name: str
    instance_type: str
    instance_count: int = 1
    role: Role | None = None

    def __post_init__(self) -> None:
        if isinstance(self.role, str) and not isinstance(self.role, Role):
            object.__setattr__(self, "role", self._read_role(self.role))

    def _read_role(self, text: str) -> Role:
        known = [role.value for role in Role]
        if text in known:
            return Role(text)
        near = did_you_mean(text, known)
        raise SpecError(
            [
                Problem(
                    what=f'"{text}" is not a role',
                    where=f"role of group {self.instance_group_name}",
                    fix=f'write "{near}"' if near else f"write one of {', '.join(known)}",
                )
            ]
        )

    @property
    def is_local(self) -> bool:
        """Whether the group's hosts are this machine's."""
        return self.instance_type in LOCAL_TYPES
