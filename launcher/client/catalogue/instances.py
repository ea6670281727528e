"""The instance types of instances.csv, with the source of each row, and the speed of vCPUs."""

from __future__ import annotations

import csv
import difflib
import functools
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.client.catalogue.catalogue_files import packaged_table, read_table, updated_instances
from launcher.errors import Problem, SpecError

#: The columns of instances.csv.
COLUMNS = (
    "instance_type",
    "vcpu",
    "memory_gib",
    "accelerators",
    "accelerator_name",
    "accelerator_memory_gib",
    "accelerator_cores",
    "nvme_gb",
    "network_gbps",
    "network_burst_gbps",
    "network_cards",
    "source",
)


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One instance type of SageMaker training.

    vcpu, memory_gib: per instance; None for the local types, where they depend on this machine.
    accelerators: the number of accelerators of type `accelerator_name`, each with
        `accelerator_memory_gib` of memory and `accelerator_cores` cores, one process per core.
    nvme_gb: total size of its own NVMe disks; 0 if it has none, None if unknown.
    network_gbps, network_burst_gbps: Gbit/s of all its `network_cards` together, always and for
        minutes; None if unknown. EFA uses all cards, a TCP connection one.
    source: a key of sources.csv, or the origin as text; None for the local types.
    """

    name: str
    vcpu: int | None
    memory_gib: float | None
    accelerators: int
    accelerator_name: str | None
    accelerator_memory_gib: float | None
    accelerator_cores: int
    nvme_gb: int | None
    network_gbps: float | None = None
    network_burst_gbps: float | None = None
    network_cards: int | None = None
    source: str | None = None

    @property
    def processes(self) -> int:
        """The number of trainer processes: one per accelerator core, at least one."""
        return max(1, self.accelerators * self.accelerator_cores)

    @property
    def has_local_storage(self) -> bool | None:
        """True if it has NVMe disks of its own instead of a volume; None if unknown."""
        return None if self.nvme_gb is None else self.nvme_gb > 0

    @property
    def card_gbps(self) -> float | None:
        """Gbit/s of one network card at all times, the limit of its TCP traffic; None if unknown.

        Cards are taken to be equal, as they are but for the first of the p6-b300.
        """
        if self.network_gbps is None or not self.network_cards:
            return None
        return self.network_gbps / self.network_cards


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


def instance_types() -> Mapping[str, InstanceType]:
    """Return every type in the catalogue, by name, in the order of the file.

    Types that `launcher plan types --update` wrote replace Launcher's own, and new ones follow.
    Raises SpecError if its file is damaged.
    """
    file = updated_instances()
    try:
        changed = file.stat().st_mtime_ns
    except OSError:
        return packaged_types()
    return _with_update(file, changed)


@functools.cache
def packaged_types() -> Mapping[str, InstanceType]:
    """Return the types of Launcher's own table."""
    return _types(packaged_table("instances.csv"))


@functools.lru_cache(maxsize=1)
def _with_update(file: Path, _changed: int) -> Mapping[str, InstanceType]:
    try:
        return {**packaged_types(), **_types(file.read_text(encoding="utf-8"))}
    except (OSError, KeyError, ValueError) as error:
        problem = Problem(
            what=f"the updated instance types cannot be read: {error}",
            where=str(file),
            fix="run `launcher plan types --update`, or delete the file",
        )
        raise SpecError([problem]) from error


def _types(text: str) -> Mapping[str, InstanceType]:
    return {row["instance_type"]: _read(row) for _, row in read_table(text)}


def types_table(instances: Iterable[InstanceType]) -> str:
    """Return a file of the columns of instances.csv."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(table_row(each) for each in instances)
    return text.getvalue()


def table_row(instance: InstanceType) -> tuple[str, ...]:
    """Return the cells of a type in the order of COLUMNS; an unknown figure is empty."""
    return tuple(_cell(getattr(instance, each)) for each in ("name", *COLUMNS[1:]))


def _cell(figure: object) -> str:
    if isinstance(figure, float):
        return f"{figure:g}"
    return "" if figure is None else str(figure)


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
        network_gbps=_number(row["network_gbps"]),
        network_burst_gbps=_number(row["network_burst_gbps"]),
        network_cards=int(row["network_cards"]) if row["network_cards"] else None,
        source=row["source"] or None,
    )


def _number(text: str) -> float | None:
    return float(text) if text else None


@dataclass(frozen=True, kw_only=True)
class CpuSpeed:
    """Speed of a vCPU to one of c5, all of a host being busy, with its range over several tests."""

    low: float
    mean: float
    high: float
    source: str


@functools.cache
def cpu_speeds() -> Mapping[str, CpuSpeed]:
    """Return the speed of each family such as "c5", from public benchmarks.

    >>> cpu_speeds()["m5"].mean
    0.86
    """
    return {
        row["family"]: CpuSpeed(
            low=float(row["low"]),
            mean=float(row["speed"]),
            high=float(row["high"]),
            source=row["source"],
        )
        for _, row in read_table(packaged_table("cpu_speed.csv"))
    }
