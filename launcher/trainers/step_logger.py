"""Logs a training: lines of steps, one a second but for the first few, and of evaluations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import torch

from launcher.runtime.event_log import emit
from launcher.trainers.stopwatch import Stopwatch
from launcher.trainers.task import Task

#: Seconds between two lines of a rank. A line reads the step's loss, which waits for the GPU.
_EVERY = 1.0
#: Seconds between the first lines, and their number: a job of seconds has measured steps, too.
_EVERY_AT_FIRST, _FIRST_LINES = 0.1, 10

_Item = TypeVar("_Item")


class StepLogger:
    """The log of one rank. steps: the number in the whole training. log: writes an event line."""

    def __init__(
        self, watch: Stopwatch, task: Task, *, steps: int, log: Callable[..., None] = emit
    ) -> None:
        self._watch = watch
        self._task = task
        self._steps = steps
        self._emit = log
        self._begin_interval()
        self._due = 0.0
        self._lines = 0
        self._began = 0.0

    def _begin_interval(self) -> None:
        self._interval, self._waited, self._count = time.perf_counter(), 0.0, 0

    def steps(self, batches: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the same batches and record how long each was waited for."""
        reading = iter(batches)
        self._begin_interval()
        while True:
            start = time.perf_counter()
            try:
                batch = next(reading)
            except StopIteration:
                return
            got = time.perf_counter()
            self._waited += got - start
            if got >= self._due:
                self._watch.start()
            self._began = self._watch.now()
            yield batch

    def log_step(self, *, epoch: int, step: int, loss: torch.Tensor) -> None:
        """Log a completed step, if one is due. step: the number of steps completed so far."""
        self._count += 1
        if not self._watch.is_on:
            return
        ended = self._watch.now()
        took = ended - self._began
        self._watch.stop()
        self._emit(
            "train_step",
            epoch=epoch,
            step=step,
            steps=self._steps,
            loss=round(loss.item(), 6),
            data_wait=round(self._waited / self._count, 6),
            **self._watch.shares(took),
            samples_per_second=round(
                self._task.batch_size * self._count / (ended - self._interval), 3
            ),
        )
        self._begin_interval()
        self._lines += 1
        self._due = ended + (_EVERY if self._lines > _FIRST_LINES else _EVERY_AT_FIRST)

    def log_evaluation(
        self, *, epoch: int, step: int, means: Mapping[str, float], is_last: bool
    ) -> None:
        """Log an evaluation of all ranks, on rank 0. is_last: early stopping ends the training."""
        if self._watch.world.rank == 0:
            named = {f"validation_{name}": round(value, 6) for name, value in means.items()}
            self._emit("evaluation", epoch=epoch, step=step, **named)
            if is_last:
                self._emit("early_stop", epoch=epoch, step=step, patience=self._task.patience)
