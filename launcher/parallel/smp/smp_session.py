"""The state of smp in a process: its parallel context, its configuration and its one model."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from launcher import parallel
from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.smp.configuration import configure
from launcher.runtime import gloo_threads
from launcher.shared import ParallelPart

#: The time that a rank waits for the others at exit, since scripts for smp have no final call.
_EXIT_TIMEOUT = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class SmpSession:
    """The result of `init`. models: at most one, a DistributedModel."""

    world: ParallelContext
    part: ParallelPart
    models: list[Any]


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
    rank that fails also ends here, so the wait has a timeout.
    """
    if not dist.is_initialized():
        return
    with contextlib.suppress(RuntimeError):  # the other ranks may have failed or exited
        dist.barrier(async_op=True).wait(_EXIT_TIMEOUT)
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()
    gloo_threads.wait_for_gloo_threads()
    _sessions.clear()
