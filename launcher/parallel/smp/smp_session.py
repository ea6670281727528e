"""The smp state in a process: parallel context, configuration, and the one model."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from launcher import parallel
from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.smp.configuration import configure
from launcher.runtime import gloo_threads
from launcher.shared import ParallelPart

#: The time that a rank waits for the others at exit, since scripts for smp have no final call.
_EXIT_SECONDS = 5.0
_EXIT_KEY = "launcher/smp-ended"


@dataclass(frozen=True, kw_only=True)
class SmpSession:
    """The result of `init`.

    models: at most one, a DistributedModel. optimizers: the DistributedOptimizers, the latest
    first. alone: the group of this rank, once it was asked for.
    """

    world: ParallelContext
    part: ParallelPart
    models: list[Any]
    optimizers: list[Any] = field(default_factory=list)
    alone: list[dist.ProcessGroup] = field(default_factory=list)


#: The session of this process, which can join once.
_sessions: list[SmpSession] = []


def init(config: Mapping[str, object] | None = None, **named: object) -> None:
    """Join the other ranks.

    The job's settings (its ModelParallel) are the defaults. Raises ParallelError.

    config: smp's own `parameters`, which override the job's settings.
    named: fields of ModelParallel (partitions, microbatches, schedule, placement, starts, stages,
        default_stage), which override both.
    """
    part = configure(ParallelPart.from_environment(os.environ), config, named)
    world = parallel.init(
        pipeline=part.partitions,
        microbatches=part.microbatches,
        placement=part.placement,
        virtual_stages=part.virtual_stages,
    )
    if (config or {}).get("ddp") is False and world.degrees.data > 1:
        raise ParallelError(
            f"ddp is False, but {world.degrees.world} ranks with {part.partitions} partitions make "
            f"{world.degrees.data} replicas, which would train different models: set ddp=True"
        )
    _sessions.append(SmpSession(world=world, part=part, models=[]))
    atexit.register(_shut_down)


def is_initialized() -> bool:
    """Return whether `init` was called."""
    return bool(_sessions)


def session() -> SmpSession:
    """Return the session of this process. Raises ParallelError before `init`."""
    if not _sessions:
        raise ParallelError("smp.init() was not called in this process: call it first")
    return _sessions[0]


def _shut_down() -> None:
    """Wait for the other ranks and destroy the process groups, at exit.

    If a process exits right after its last collective, peers that have not finished it crash. A
    rank that leaves early also ends here, while others wait for it in a step: so the wait is no
    collective, which would keep the process from ending, and has a timeout. A rank that has raised
    does not wait: the others end once its connections are closed.
    """
    if not dist.is_initialized():
        return
    has_raised = getattr(sys, "last_value", None) is not None
    if not has_raised and _have_all_ended(_sessions[0].world):
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
    gloo_threads.wait_for_gloo_threads()
    _sessions.clear()


def _have_all_ended(world: ParallelContext) -> bool:
    """Say that this rank ends; return whether all others do so within some seconds."""
    deadline = time.monotonic() + _EXIT_SECONDS
    with contextlib.suppress(RuntimeError):  # the store may be gone
        world.store.add(_EXIT_KEY, 1)
        while time.monotonic() < deadline:
            if world.store.add(_EXIT_KEY, 0) >= world.degrees.world:
                return True
            time.sleep(0.01)
    return False
