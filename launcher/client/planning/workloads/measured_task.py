"""A task measured on this machine: the seconds of its step on the GPU, the memory of its model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.client.catalogue import instance_types
from launcher.client.planning.plans.parallel_strategy import ModelFigures
from launcher.client.planning.workloads.task_subprocess import run_task_program
from launcher.client.spec import JobSpec, TorchrunDistribution
from launcher.shared import Activations, Footprint

#: NVIDIA's former brand in the names of its driver, as in "Tesla T4".
_BRANDS = {"Tesla ": "NVIDIA "}


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
