"""Everything known about a running or finished job, for the judge and the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from launcher.client.planning.diagnosis.mean_step_time import MeanStepTime
from launcher.shared import Evidence


@dataclass(frozen=True, kw_only=True)
class UsePoint:
    """The use of one host at a time: shares from 0 to 1, of its `cpus` and accelerators.

    gpus: of each accelerator. machine: of the CPUs of its machine, by all processes; own: by its.
    """

    time: float
    cpu: float | None = None
    gpu: float | None = None
    cpus: int | None = None
    gpus: tuple[float, ...] = ()
    machine: float | None = None
    own: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobEvidence(Evidence):
    """The evidence on a job, with its steps and where all that is from.

    read_on: the day on which it was read. bills: whether its hosts cost money.
    step, samples_per_step: of all ranks; None if unknown.
    measured: the use of each host over time, where CloudWatch has it.
    sources: where the figures come from.
    missing: what could not be read, and why.
    """

    status: str
    region: str
    read_on: date
    bills: bool
    step: MeanStepTime | None = None
    samples_per_step: float | None = None
    measured: Mapping[str, Sequence[UsePoint]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def step_seconds(self) -> float | None:
        """Mean seconds of a step; None if unknown."""
        return None if self.step is None else self.step.mean
