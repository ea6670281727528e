"""Run one rank of a job that names a task: `python -m launcher.trainers`, under torchrun."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from launcher.errors import ContractError
from launcher.runtime import rank
from launcher.shared import TASK_VARIABLE, enter


def main() -> int:
    """Train the job's task as one rank and return the exit code."""
    return rank.run(_train)


def _train() -> None:
    """Train with the user's code folder as working folder, as a script would run."""
    code = Path(os.environ.get("SM_MODULE_DIR", ".")).resolve()
    enter(str(code), str(code))
    # Torch takes seconds and may fail.
    from launcher.trainers import loop
    from launcher.trainers.task import make_task

    if TASK_VARIABLE not in os.environ:
        raise ContractError(f"{TASK_VARIABLE} is not set: it names the task, 'module:function'")
    hyperparameters = json.loads(os.environ.get("SM_HPS", "{}"))
    loop.train(
        make_task(os.environ[TASK_VARIABLE], hyperparameters),
        Path(os.environ.get("SM_MODEL_DIR", code / "model")),
    )


if __name__ == "__main__":
    sys.exit(main())
