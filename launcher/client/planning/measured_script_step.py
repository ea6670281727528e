"""The seconds of a training script's step, measured on this machine while the script runs."""

from __future__ import annotations

import json

from launcher.client.doctor import DatasetCopy, ReadLimits
from launcher.client.planning.measured_step_time import MeasuredStepTime
from launcher.client.planning.task_subprocess import run_task_program
from launcher.errors import PlatformError


def measure_script_step(
    script: str, copy: DatasetCopy, *, steps: int, limits: ReadLimits
) -> MeasuredStepTime:
    """Run a script on the copy of its job's code, until it has done so many steps.

    It gets the job's hyperparameters, variables and channels, and is one rank. What it writes to
    SM_MODEL_DIR or its own folder is gone afterwards. Raises PlatformError without such a script,
    and ParallelError for one that fails or does too few steps in the limits' seconds.
    """
    if not (copy.paths.code / script).is_file():
        raise PlatformError(f"there is no script {script} among the job's files")
    for folder in (copy.paths.model, copy.paths.output_data):
        folder.mkdir(parents=True, exist_ok=True)
    hyperparameters = dict(copy.spec.hyperparameters)
    request = {
        "script": script,
        "source_dir": str(copy.paths.code),
        "hyperparameters": hyperparameters,
        "environment": {
            **copy.variables(),
            "SM_HPS": json.dumps(hyperparameters),
            "SM_MODEL_DIR": str(copy.paths.model),
            "SM_OUTPUT_DATA_DIR": str(copy.paths.output_data),
        },
        "steps": steps,
        "seconds": limits.patience,
    }
    found = json.loads(run_task_program("script_profile", request))
    return MeasuredStepTime(memory_bytes=found.pop("memory"), **found)
