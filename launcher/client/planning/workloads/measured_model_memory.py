"""The memory of a task's model, measured on this machine, which needs no GPU for it."""

from __future__ import annotations

import json
from pathlib import Path

from launcher.client.planning.plans.parallel_strategy import ModelFigures
from launcher.client.planning.workloads.task_subprocess import run_task_program
from launcher.client.spec import JobSpec, TorchrunDistribution
from launcher.shared import Activations, Footprint


def measure_model_memory(task: str, job: JobSpec, folder: Path) -> ModelFigures:
    """Measure the model of a task ("module:function").

    job: gives the hyperparameters, and the precision and recomputation of its steps. folder: with
    the job's code. Raises ParallelError for a model that cannot be measured, and PlatformError
    without torch.
    """
    request = {
        "task": task,
        "source_dir": str(folder.absolute()),
        "hyperparameters": dict(job.hyperparameters),
    }
    found = json.loads(run_task_program("model_profile", request))
    activations = found["footprint"].pop("activations")
    timed = job.distribution if isinstance(job.distribution, TorchrunDistribution) else None
    return ModelFigures(
        footprint=Footprint(
            **found["footprint"],
            activations={
                (precision, recomputed): Activations(**kept)
                for (precision, recomputed), kept in activations
            },
        ),
        blocks=found["blocks"],
        batch_norm=found["batch_norm"],
        precision=timed.precision if timed else None,
        recomputed=bool(timed and timed.recomputed),
    )
