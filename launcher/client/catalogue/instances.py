"""The instance types of instances.csv, whose header names the source of each number."""

from __future__ import annotations

import csv
import difflib
import functools
import importlib.resources
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One instance type of SageMaker training.

    vcpu, memory_gib: per instance; None for the local types, where they depend on this machine.
    accelerators: the number of accelerators of type `accelerator_name`, each with
        `accelerator_memory_gib` of memory and `accelerator_cores` cores, one process per core.
    nvme_gb: total size of its own NVMe disks; 0 if it has none, None if unknown.
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
        """The number of trainer processes: one per accelerator core, at least one."""
        return max(1, self.accelerators * self.accelerator_cores)

    @property
    def has_local_storage(self) -> bool | None:
        """True if it has NVMe disks of its own instead of a volume; None if unknown."""
        return None if self.nvme_gb is None else self.nvme_gb > 0


def find(name: str) -> InstanceType | None:
    """Return the instance type with exactly that name (such as "ml.c5.2xlarge"), or None.

    >>> find("ml.p3.8xlarge").accelerators
    4
    """
    return instance_types().get(name)


def near(name: str) -> tuple[str, ...]:
    """Return up to three names in the catalogue that resemble `name`, the most similar first."""
    wanted = name.strip().lower()
    if f"ml.{wanted}" in instance_types():
        return (f"ml.{wanted}",)
    return tuple(difflib.get_close_matches(wanted, instance_types(), n=3, cutoff=0.75))


@functools.cache
def instance_types() -> Mapping[str, InstanceType]:
    """Return every type in the catalogue, by name, in the order of the file."""
    file = importlib.resources.files("launcher.client.catalogue") / "instances.csv"
    rows = read_table(file.read_text(encoding="utf-8"))
    return {row["instance_type"]: _read(row) for _, row in rows}


def read_table(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each row of a CSV file with its line number; skip comment lines, which start with #."""
    numbered = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    rows = csv.DictReader((line for _, line in numbered), restval="")
    for (number, _), row in zip(numbered[1:], rows, strict=False):
        yield number, {name.strip(): cell.strip() for name, cell in row.items() if name}


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
