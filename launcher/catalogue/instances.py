"""instances.csv as values. The file's head says where each number comes from."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.catalogue.table import read_table


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One instance type of SageMaker training.

    vcpu, memory_gib: of one instance; None for the local types, which have what this machine has.
    accelerators: how many of `accelerator_name` it has, each with `accelerator_memory_gib` and
        taking `accelerator_cores` processes.
    nvme_gb: its own NVMe disks together; 0 when it has none, None when that is not known.
    """

    name: str
    vcpu: int | None
    memory_gib: float | None
    accelerators: int
    accelerator_name: str | None
    accelerator_memory_gib: float | None
    accelerator_cores: int
    nvme_gb: int | None

    @property
    def processes(self) -> int:
        """How many trainer processes fill the instance: one per accelerator core, at least one."""
        return max(1, self.accelerators * self.accelerator_cores)

    @property
    def has_local_storage(self) -> bool | None:
        """Whether it has NVMe disks of its own, in place of a volume; None when not known."""
        return None if self.nvme_gb is None else self.nvme_gb > 0


def find(name: str) -> InstanceType | None:
    """The instance type of that exact name (such as "ml.c5.2xlarge"), or None.

    >>> find("ml.p3.8xlarge").accelerators
    4
    """
    return instance_types().get(name)


def near(name: str) -> tuple[str, ...]:
    """Up to three names of the catalogue that look like `name`, the nearest first."""
    wanted = name.strip().lower()
    if f"ml.{wanted}" in instance_types():
        return (f"ml.{wanted}",)
    return tuple(difflib.get_close_matches(wanted, instance_types(), n=3, cutoff=0.75))


@functools.cache
def instance_types() -> Mapping[str, InstanceType]:
    """Every type of the catalogue, by name, in the order of the file."""
    file = importlib.resources.files("launcher.catalogue") / "instances.csv"
    rows = read_table(file.read_text(encoding="utf-8"))
    return {row["instance_type"]: _read(row) for _, row in rows}


def _read(row: Mapping[str, str]) -> InstanceType:
    return InstanceType(
        name=row["instance_type"],
        vcpu=int(row["vcpu"]) if row["vcpu"] else None,
        memory_gib=_number(row["memory_gib"]),
        accelerators=int(row["accelerators"]),
        accelerator_name=row["accelerator_name"] or None,
        accelerator_memory_gib=_number(row["accelerator_memory_gib"]),
        accelerator_cores=int(row["accelerator_cores"] or 0),
        nvme_gb=int(row["nvme_gb"]) if row["nvme_gb"] else None,
    )


def _number(text: str) -> float | None:
    return float(text) if text else None
