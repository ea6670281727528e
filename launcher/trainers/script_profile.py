"""Measure the steps of a training script: `python -m launcher.trainers.script_profile`.

A `task_process`, whose answer is a StepProfile. The script runs unchanged, as a program of its own;
the loaders of torch and of Launcher note when they hand out a batch and when they are asked for the
next one. The time between the two is the step: it has no wait for data. Steps without gradients,
as those of an evaluation, do not count. After enough steps, the script ends.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader as TorchLoader

from launcher.data import DataLoader
from launcher.errors import ParallelError
from launcher.runtime import as_arguments
from launcher.shared import enter
from launcher.trainers.step_profile import StepProfile
from launcher.trainers.task_process import print_progress, serve

#: Steps before those that count: kernels are chosen, and the optimizer's state is created.
_WARM_UP_STEPS = 5
_FEWEST_STEPS = 3
#: The accelerator of a machine without one.
_CPU = "CPU"


class _Enough(BaseException):
    """Ends the script; no `except Exception` of its own catches it."""


@dataclass
class _StepTimes:
    """Seconds of the steps so far. wanted: steps that are enough. batch_size: 0 if unknown."""

    wanted: int
    seconds: list[float] = field(default_factory=list)
    batch_size: int = 0
    _process: int = field(default_factory=os.getpid)

    def watch(self, loader: type[Any]) -> None:
        """Take the steps with batches of a class of loaders."""
        read: Callable[[Any], Iterator[Any]] = loader.__iter__
        loader.__iter__ = lambda each: self._watched(each, read(each))

    def _watched(self, loader: Any, batches: Iterator[Any]) -> Iterator[Any]:
        is_script = threading.current_thread() is threading.main_thread()
        if not is_script or os.getpid() != self._process:  # read ahead, or by a loader's worker
            yield from batches
            return
        for batch in batches:
            began = _now()
            yield batch
            if torch.is_grad_enabled():
                self._add(loader, _now() - began)

    def _add(self, loader: Any, seconds: float) -> None:
        self.seconds.append(seconds)
        self.batch_size = getattr(loader, "batch_size", None) or 0
        if len(self.seconds) >= _WARM_UP_STEPS + self.wanted:
            raise _Enough

    def profile(self, script: str) -> StepProfile:
        """Return the measured steps; raises ParallelError if they are few."""
        found = self.seconds
        if len(found) <= _FEWEST_STEPS:
            raise ParallelError(
                f"{script} did {len(found)} steps with batches of torch.utils.data.DataLoader or "
                f"launcher.data.DataLoader, too few to measure: it takes {_FEWEST_STEPS + 1}, in "
                "its main thread and outside torch.no_grad(); give it more time with --seconds, "
                "or time its steps yourself and give them with --step-seconds"
            )
        measured = found[min(_WARM_UP_STEPS, len(found) - _FEWEST_STEPS) :]
        low, _, high = statistics.quantiles(measured, n=4)
        has_gpu = torch.cuda.is_initialized()  # else the script has used none
        return StepProfile(
            accelerator=torch.cuda.get_device_name() if has_gpu else _CPU,
            batch_size=self.batch_size,
            steps=len(measured),
            median=statistics.median(measured),
            low=low,
            high=high,
            memory=torch.cuda.max_memory_allocated() if has_gpu else 0,
        )


def main() -> int:
    """Answer the request on stdin and return the exit code."""
    return serve(lambda fields: json.dumps(asdict(answer(fields))))


def answer(request: Mapping[str, Any]) -> StepProfile:
    """Run a request's script until it has done enough steps.

    request: script, hyperparameters, environment, steps, seconds (until it is ended in any case).
    Raises ParallelError for too few steps, and the script's errors.
    """
    script, times = request["script"], _StepTimes(request["steps"])
    times.watch(TorchLoader)
    times.watch(DataLoader)
    os.environ.update(request["environment"])
    sys.argv = [script, *as_arguments(request["hyperparameters"])]
    enter(str(Path.cwd()), str(Path(script).parent.resolve()))
    print_progress(f"steps of {script}, which is ended after {request['steps']} of them")
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"], 1.0)
    try:
        runpy.run_path(script, run_name="__main__")
    except _Enough:
        pass
    except SystemExit as ended:
        if ended.code:
            raise ParallelError(f"{script} ended with {ended.code!r} before enough steps") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return times.profile(script)


def _end(_signal: int, _frame: object) -> None:
    raise _Enough


def _now() -> float:
    """Return the time in seconds, when the GPU has done what it was asked for."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    sys.exit(main())
