"""Speed of vCPUs by instance family, from public benchmarks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.client.catalogue.catalogue_files import packaged_table, read_table


@dataclass(frozen=True, kw_only=True)
class CpuSpeed:
    """Speed of a vCPU to one of c5, all of a host being busy, with its range over several tests."""

    low: float
    mean: float
    high: float
    source: str


@functools.cache
def cpu_speeds() -> Mapping[str, CpuSpeed]:
    """Return the speed of each family of the table, such as "c5".

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
