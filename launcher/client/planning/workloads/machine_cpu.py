"""The CPU of this machine, and the EC2 family that it belongs to."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from launcher.client.catalogue import find
from launcher.client.planning.plans.step_model import family

_CPU_INFO = Path("/proc/cpuinfo")
#: The instance type, on EC2's Nitro hypervisor.
_PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")


@dataclass(frozen=True, kw_only=True)
class MachineCpu:
    """A CPU. model: as the kernel names it. family: of EC2, such as "c5"; None if unknown."""

    model: str
    count: int
    family: str | None


def this_cpu(family_name: str | None = None) -> MachineCpu:
    """Return the CPU of this machine.

    family_name: its family if the user gave it; by default that of the EC2 instance, if it is one.
    """
    return MachineCpu(
        model=_model(), count=len(os.sched_getaffinity(0)), family=family_name or _family()
    )


def _model() -> str:
    lines = _lines(_CPU_INFO)
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _family() -> str | None:
    instance = find(f"ml.{''.join(_lines(_PRODUCT)[:1]).strip()}")
    return family(instance) if instance else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
