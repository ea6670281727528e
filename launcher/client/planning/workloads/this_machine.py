"""Measure this machine: its CPU, a task's seconds per step on the GPU, its model's bytes.

CPUs and accelerators get their names in the catalogue.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.client.catalogue import find, instance_types
from launcher.client.planning.plans.parallel_strategy import ModelFigures
from launcher.client.planning.plans.step_model import family
from launcher.client.planning.workloads.task_subprocess import run_task_program
from launcher.client.spec import JobSpec, TorchrunDistribution
from launcher.shared import Activations, Footprint

#: NVIDIA's former brand in the names of its driver, as in "Tesla T4".
_BRANDS = {"Tesla ": "NVIDIA "}
_CPU_INFO = Path("/proc/cpuinfo")
#: The instance type, on EC2's Nitro hypervisor.
_PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")


@dataclass(frozen=True, kw_only=True)
class MeasuredStepTime:
    """Seconds of a step whose data is there already.

    accelerator: as the driver calls it. median, low, high: seconds; low and high are quartiles.
    memory_bytes: the most that torch held.
    """

    accelerator: str
    batch_size: int
    steps: int
    median: float
    low: float
    high: float
    memory_bytes: int

    @property
    def catalogue_name(self) -> str | None:
        """The accelerator's name in the catalogue of instance types; None if it has none."""
        return catalogue_name(self.accelerator)


def measure_step_time(
    task: str, job: JobSpec, folder: Path, *, batch_size: int, seconds: float
) -> MeasuredStepTime:
    """Measure steps of a task ("module:function") for some seconds.

    job: gives the hyperparameters and the precision. folder: with the job's code. batch_size:
    samples of a step. Raises ParallelError for a task that cannot be trained here, and
    PlatformError without torch.
    """
    precision, recomputed = _computation(job)
    limits = {"batch_size": batch_size, "seconds": seconds}
    request = {**limits, "precision": precision, "recomputed": list(recomputed)}
    found = _answer("step_profile", task, job, folder, request)
    return MeasuredStepTime(memory_bytes=found.pop("memory"), **found)


def _answer(
    program: str, task: str, job: JobSpec, folder: Path, more: Mapping[str, object]
) -> dict[str, Any]:
    request = {
        "task": task,
        "source_dir": str(folder.absolute()),
        "hyperparameters": dict(job.hyperparameters),
        **more,
    }
    answer: dict[str, Any] = json.loads(run_task_program(program, request))
    return answer


def _computation(job: JobSpec) -> tuple[str | None, Sequence[str]]:
    """Return the precision of a job's steps, and the names of the modules that are recomputed."""
    chosen = job.distribution
    if isinstance(chosen, TorchrunDistribution):
        return chosen.precision, chosen.recomputed
    return None, ()


def catalogue_name(device: str) -> str | None:
    """Return the catalogue's name of a device such as "NVIDIA H100 80GB HBM3" or "Tesla T4"."""
    for brand, later in _BRANDS.items():
        device = device.replace(brand, later)
    known = {each.accelerator_name for each in instance_types().values() if each.accelerator_name}
    words = device.replace("-", " ") + " "
    fitting = [name for name in known if words.startswith(f"{name} ")]
    return max(fitting, key=len, default=None)


def measure_model_memory(task: str, job: JobSpec, folder: Path) -> ModelFigures:
    """Measure the model of a task ("module:function").

    job: gives the hyperparameters, and the precision and recomputation of its steps. folder: with
    the job's code. Raises ParallelError for a model that cannot be measured, and PlatformError
    without torch.
    """
    found = _answer("model_profile", task, job, folder, {})
    activations = found["footprint"].pop("activations")
    precision, recomputed = _computation(job)
    return ModelFigures(
        footprint=Footprint(
            **found["footprint"],
            activations={tuple(setting): Activations(**kept) for setting, kept in activations},
        ),
        blocks=found["blocks"],
        batch_norm=found["batch_norm"],
        precision=precision,
        recomputed=bool(recomputed),
    )


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
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return MachineCpu(model=_cpu_model(), count=usable, family=family_name or _ec2_family())


def _cpu_model() -> str:
    lines = _lines(_CPU_INFO)
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _ec2_family() -> str | None:
    instance = find(f"ml.{''.join(_lines(_PRODUCT)[:1]).strip()}")
    return family(instance) if instance else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
