"""The workload that fits observed steps: a range, where the observations do not give it exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.errors import Problem, SpecError


@dataclass(frozen=True, kw_only=True)
class ObservedStep:
    """A step of a job that ran.

    seconds: of one step. vcpus: of the hosts that prepare data. gpu_busy, cpu_busy: shares from 0
    to 1 of the accelerators and of these vCPUs; None if they were not published.
    """

    seconds: float
    vcpus: int
    gpu_busy: float | None = None
    cpu_busy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The least and the most seconds that fit: of vCPUs for one step, and of each accelerator.

    The range is wide where observations disagree, or give only a bound.
    """

    cpu_seconds: tuple[float, float]
    gpu_seconds: tuple[float, float]


def calibrate(observed: Sequence[ObservedStep]) -> Calibration:
    """Return the ranges that fit the observed steps of one workload.

    An observed share gives the seconds themselves. Without one the step is a bound: no resource was
    busy for longer. A bound below what other steps give widens the range, as their CPUs differ.
    Raises SpecError if there is no observation.
    """
    if not observed:
        problem = Problem(
            what="there is no observed step", where="observed", fix="give at least one"
        )
        raise SpecError([problem])
    cpu = [(each.cpu_busy, each.seconds * each.vcpus) for each in observed]
    gpu = [(each.gpu_busy, each.seconds) for each in observed]
    return Calibration(cpu_seconds=_range(cpu), gpu_seconds=_range(gpu))


def _range(shares_of: Iterable[tuple[float | None, float]]) -> tuple[float, float]:
    known, bounds = [], []
    for share, available in shares_of:
        if share is None:
            bounds.append(available)
        else:
            known.append(share * available)
    if known:
        return min(known + bounds), max(known)
    return 0.0, min(bounds)
