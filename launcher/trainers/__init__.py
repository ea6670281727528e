"""The trainers that a job starts when it names a Task instead of a script.

    from launcher.trainers import Task

    def make(width: int, lr: float) -> Task: ...      # in task.py; the job says task: "task:make"

Each rank runs `python -m launcher.trainers`. `task` is what a user describes, and `loop` is the
training loop. `data_parallel_trainer` and `pipeline_trainer` are the two trainers, `batches` reads
their data, and `evaluation` and `step_logger` report results. See docs/trainers.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.trainers.task import Task

__all__ = ["Task"]


def __getattr__(name: str) -> object:
    """Import Task on first use: torch takes seconds, and a rank reports it if the import fails."""
    if name != "Task":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from launcher.trainers.task import Task

    return Task
