"""The verdict of a rank that loads its data itself, where nobody else could give it."""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Mapping

from launcher.data.figures import verdict
from launcher.runtime.events import emit


class Alone:
    """What the loaders of one process report; at its end rank 0 prints a verdict of it."""

    def __init__(self, rank: int, world: int) -> None:
        self._world = world
        self._figures: dict[str, Mapping[str, float]] = {}
        if rank == 0:
            atexit.register(self._last_words)

    def hear(self, stream: str, figures: Mapping[str, float]) -> None:
        self._figures[stream] = figures

    def _last_words(self) -> None:
        each = self._figures.values()
        total, wait, steps = (sum(f[name] for f in each) for name in ("total", "wait", "steps"))
        if (found := verdict.judge_alone(total, wait, steps, self._world)) is not None:
            emit("data_verdict", **found.fields())


@functools.cache
def this_process() -> Alone:
    """One for all loaders of the process: together they are what its time went to."""
    return Alone(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
