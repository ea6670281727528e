"""The hosts of a local job: algo-1..N, in the order of the request's groups, and their GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.shared import HOMOGENEOUS_GROUP, VISIBLE_GPUS_VARIABLE

if TYPE_CHECKING:
    from launcher.client.sessions.local.host.host_network import HostNetwork
    from launcher.shared import TrainingJobRequest

LOCAL_GPU = "local_gpu"


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
    """Return (name, instance type, count) of each group; a job without groups is one group.

    Of preferred types a job gets the first: there is room for all of them here.
    """
    resources = request["ResourceConfig"]
    if groups := resources.get("InstanceGroups"):
        return [(g["InstanceGroupName"], g["InstanceType"], g["InstanceCount"]) for g in groups]
    (first, *_) = resources.get("InstancePreferences") or [resources]
    count = first.get("InstanceCount", resources.get("InstanceCount", 1))
    return [(HOMOGENEOUS_GROUP, first["InstanceType"], count)]


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


@dataclass(frozen=True, kw_only=True)
class HostGpus:
    """The GPUs of each host by its name, and a note if hosts that need GPUs get none."""

    by_host: Mapping[str, tuple[str, ...]]
    note: str | None = None

    def variables(self, host: LocalHost) -> dict[str, str]:
        """Return the variable by which a host sees its GPUs alone; none without any GPU here."""
        if host.name not in self.by_host:
            return {}
        return {VISIBLE_GPUS_VARIABLE: ",".join(self.by_host[host.name])}


def divide_gpus(hosts: Sequence[LocalHost], available: Sequence[str]) -> HostGpus:
    """Give each host whose instance type has GPUs the same number of this machine's.

    Two ranks of NCCL cannot share a GPU, so that hosts get none if there are fewer GPUs than hosts.
    """
    if not available:
        return HostGpus(by_host={})
    with_gpus = [host for host in hosts if _has_gpus(host.instance_type)]
    share = len(available) // len(with_gpus) if with_gpus else 0
    given: dict[str, tuple[str, ...]] = {host.name: () for host in hosts}
    for number, host in enumerate(with_gpus):
        given[host.name] = tuple(available[number * share : (number + 1) * share])
    note = None
    if with_gpus and not share:
        note = (
            f"this machine has {len(available)} GPU{'s' * (len(available) > 1)} for "
            f"{len(with_gpus)} hosts with GPUs: they run without"
        )
    return HostGpus(by_host=given, note=note)


def _has_gpus(instance_type: str) -> bool:
    known = catalogue.find(instance_type)
    return instance_type == LOCAL_GPU or (known is not None and known.accelerators > 0)
