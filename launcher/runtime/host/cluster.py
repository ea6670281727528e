"""The hosts of a job with their groups and roles, as one host sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.errors import ContractError
from launcher.shared import HOMOGENEOUS_GROUP, Role


def in_numeric_order(hosts: Iterable[str]) -> tuple[str, ...]:
    """Sort host names so that algo-2 precedes algo-10; SageMaker's lists are lexicographic."""
    return tuple(
        sorted(
            hosts,
            key=lambda host: [
                int(part) if part.isdigit() else part for part in re.split(r"(\d+)", host)
            ],
        )
    )


@dataclass(frozen=True, kw_only=True)
class Group:
    """One instance group, with its hosts in numeric order."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]
    role: Role


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Every group of the job and the identity of this host.

    addresses: the address of each host, if host names do not resolve (several hosts on one
        machine).
    leading: the name of the script group that leads a job without a train group.
    """

    groups: tuple[Group, ...]
    host: str
    interface: str = "eth0"
    addresses: Mapping[str, str] = field(default_factory=dict)
    leading: str | None = None

    @classmethod
    def from_resource_config(
        cls,
        config: Mapping[str, Any],
        roles: Mapping[str, Role],
        addresses: Mapping[str, str],
        leading: str | None = None,
    ) -> Cluster:
        """Read resourceconfig.json; a job without groups has one group of all its hosts.

        Raises ContractError when a group has no role in the job document.
        """
        entries = config.get("instance_groups") or [
            {
                "instance_group_name": config.get("current_group_name", HOMOGENEOUS_GROUP),
                "instance_type": config.get("current_instance_type", "local"),
                "hosts": config["hosts"],
            }
        ]
        missing = [
            e["instance_group_name"] for e in entries if e["instance_group_name"] not in roles
        ]
        if missing:
            raise ContractError(
                f"the job document has no role for the groups {missing}, only for {sorted(roles)}"
            )
        groups = tuple(
            Group(
                name=entry["instance_group_name"],
                instance_type=entry["instance_type"],
                hosts=in_numeric_order(entry["hosts"]),
                role=roles[entry["instance_group_name"]],
            )
            for entry in entries
        )
        return cls(
            groups=groups,
            host=config["current_host"],
            interface=config.get("network_interface_name", "eth0"),
            addresses=addresses,
            leading=leading,
        )

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of the job, in numeric order."""
        return in_numeric_order(host for group in self.groups for host in group.hosts)

    @property
    def group(self) -> Group:
        """The group of this host."""
        for group in self.groups:
            if self.host in group.hosts:
                return group
        raise ContractError(f"host {self.host!r} is in none of the groups {self.groups}")

    @property
    def train_group(self) -> Group:
        """The group that trains, or else leads the job. Raises ContractError if there is none."""
        for group in self.groups:
            if group.role is Role.TRAIN:
                return group
        for group in self.groups:
            if group.role is Role.SCRIPT and self.leading in (None, group.name):
                return group
        raise ContractError("no group of this job has the role 'train'")

    @property
    def data_hosts(self) -> tuple[str, ...]:
        """The hosts that prepare batches, in numeric order."""
        return in_numeric_order(
            host for group in self.groups if group.role is Role.DATA for host in group.hosts
        )

    @property
    def is_in_train_group(self) -> bool:
        """True if this host is one of the train group's."""
        return self.host in self.train_group.hosts

    @property
    def leader(self) -> str:
        """The train group's first host, which runs the dispatcher and the job coordination."""
        return self.train_group.hosts[0]

    @property
    def is_leader(self) -> bool:
        """True if this host is the leader."""
        return self.host == self.leader

    @property
    def host_rank(self) -> int:
        """This host's index in its group, from 0."""
        return self.group.hosts.index(self.host)

    def address(self, host: str) -> str:
        """Return the address at which a host can be reached."""
        return self.addresses.get(host, host)

    @property
    def bind_address(self) -> str:
        """The address to listen on: this host's own if hosts share a machine, else 0.0.0.0."""
        return self.addresses.get(self.host, "0.0.0.0")
