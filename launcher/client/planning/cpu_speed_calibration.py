"""The speed of this machine's CPU family, from one dataset measured on two machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launcher.client.planning.machine_cpu import this_cpu
from launcher.client.planning.workload import Workload
from launcher.client.planning.workload_profile import WorkloadProfile, rounded
from launcher.client.spec import read_plain
from launcher.errors import PlatformError


@dataclass(frozen=True, kw_only=True)
class CpuSpeedCalibration:
    """A workload measured elsewhere, to which this machine's relative CPU speed is added.

    file: of the workload. fields: its content. dataset: that was measured. family: the CPU family
    of this machine, under which the speed is added.
    """

    file: Path
    fields: Mapping[str, Any]
    dataset: str
    family: str

    @classmethod
    def read(cls, file: Path, family: str | None) -> CpuSpeedCalibration:
        """Read a workload; raises SpecError if it is none, PlatformError if it cannot be compared.

        family: of this machine; None to ask EC2's firmware.
        """
        Workload.from_yaml(file)
        fields = read_plain(file).value
        measured = fields.get("measured")
        dataset = measured.get("dataset") if isinstance(measured, Mapping) else None
        here = this_cpu(family).family
        if not dataset:
            raise PlatformError(
                f"{file} does not say of which dataset it is: take a file of `launcher profile`"
            )
        if not fields.get("cpu_speed"):
            raise PlatformError(
                f"{file} has no cpu_speed, so that it is not known which family its figures are "
                "of: write the family that it was measured on, such as cpu_speed: {c5: 1}"
            )
        if here is None:
            raise PlatformError("this machine is no EC2 instance: say its family, --cpu-family c5")
        return cls(file=file, fields=fields, dataset=dataset, family=here)

    def speed(self, measured: WorkloadProfile) -> float:
        """Return the speed of this machine's family, relative to that of the file's figures.

        Raises PlatformError for a profile of another dataset.
        """
        if measured.dataset != self.dataset:
            raise PlatformError(
                f"{self.file} is of {self.dataset}, and {measured.dataset} was measured here: "
                "compare one dataset"
            )
        there = self.fields["cpu_seconds_per_sample"]
        mean = there["mean"] if isinstance(there, Mapping) else there
        return rounded(mean / measured.cpu_seconds.mean)

    def to_yaml(self, measured: WorkloadProfile) -> str:
        """Return the file's fields with the speed of this machine's family among them."""
        speeds = {**self.fields["cpu_speed"], self.family: self.speed(measured)}
        fields = {**self.fields, "cpu_speed": speeds}
        heading = f"# Workload of {self.dataset}, with the speed of {self.family} measured."
        return (
            f"{heading}\n{yaml.safe_dump(fields, sort_keys=False, width=100, allow_unicode=True)}"
        )
