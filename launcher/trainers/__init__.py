"""The trainers that a job starts when it names a Task instead of a script.

    from launcher.trainers import Task

    def make(width: int, lr: float) -> Task: ...      # in task.py; the job says task: "task:make"

Each rank runs `python -m launcher.trainers`. `task` is what a user describes, and `loop` is the
training loop. `data_parallel_trainer` and `pipeline_trainer` are the two trainers, `batches` reads
their data, and `evaluation` and `step_logger` report results. See docs/trainers.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.trainers import loop
    from launcher.trainers.data_parallel_trainer import DataParallelTrainer
    from launcher.trainers.evaluation import EarlyStopping, MetricAccumulator
    from launcher.trainers.footprint import measure
    from launcher.trainers.loop import train
    from launcher.trainers.oom import memory_advice
    from launcher.trainers.stopwatch import Stopwatch
    from launcher.trainers.task import Task, last_is_target, make_task

__all__ = ["Task"]

__getattr__ = open_door(__name__)
