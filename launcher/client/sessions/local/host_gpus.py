"""The division of this machine's GPUs among the hosts of a local job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.client import catalogue
from launcher.client.sessions.local.job_hosts import LocalHost
from launcher.shared.gpus import VISIBLE_GPUS_VARIABLE

_LOCAL_GPU = "local_gpu"


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
    return instance_type == _LOCAL_GPU or (known is not None and known.accelerators > 0)
