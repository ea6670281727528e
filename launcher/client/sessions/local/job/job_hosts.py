"""The hosts of a local job: algo-1..N, numbered in the order of the request's groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.shared import HOMOGENEOUS_GROUP

if TYPE_CHECKING:
    from launcher.client.sessions.local.host.host_network import HostNetwork
    from launcher.shared import TrainingJobRequest


@dataclass(frozen=True, kw_only=True)
class LocalHost:
    """One instance of the job.

    number: 1 for algo-1.
    address: the address at which other hosts reach it.
    interface: the network device that has the address.
    """

    number: int
    group: str
    instance_type: str
    address: str
    interface: str

    @property
    def name(self) -> str:
        """The host's name, such as "algo-1"."""
        return f"algo-{self.number}"

    def __str__(self) -> str:
        return f"{self.name} ({self.group})"


def groups_of(request: TrainingJobRequest) -> list[tuple[str, str, int]]:
    """Return (name, instance type, count) of each group; a job without groups is one group."""
    resources = request["ResourceConfig"]
    if groups := resources.get("InstanceGroups"):
        return [(g["InstanceGroupName"], g["InstanceType"], g["InstanceCount"]) for g in groups]
    return [(HOMOGENEOUS_GROUP, resources["InstanceType"], resources["InstanceCount"])]


def hosts_of(request: TrainingJobRequest, network: HostNetwork) -> tuple[LocalHost, ...]:
    """Return the hosts of a job, with addresses from its network settings."""
    members = [
        (group, instance_type)
        for group, instance_type, count in groups_of(request)
        for _ in range(count)
    ]
    return tuple(
        LocalHost(
            number=number,
            group=group,
            instance_type=instance_type,
            address=network.address(number),
            interface=network.interface,
        )
        for number, (group, instance_type) in enumerate(members, start=1)
    )


def host_number(name: str) -> int:
    """Return 10 for "algo-10": the sort key for hosts, since "algo-10" < "algo-9" as text."""
    return int(name.rpartition("-")[2])
