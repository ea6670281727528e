"""Out-of-memory errors with advice: what the rank needs, and settings that need less."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from launcher.errors import ParallelError
from launcher.parallel import ParallelContext
from launcher.shared import Footprint, MemorySavings, Need, memory_advice, need


@contextmanager
def oom_advice(world: ParallelContext, footprint: Callable[[], Footprint]) -> Iterator[None]:
    """Turn an out-of-memory error into a ParallelError with advice on what to try.

    footprint: measures the model; called only then.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_oom(error):
            raise
        traceback.clear_frames(error.__traceback__)  # their locals hold the memory
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ParallelError(f"out of memory: {first}\n{_advice(world, footprint)}") from error


def _is_oom(error: Exception) -> bool:
    """Recognize the errors of GPUs, numpy and Python, and of torch's CPU allocator."""
    kinds = (torch.OutOfMemoryError, MemoryError)
    return isinstance(error, kinds) or "DefaultCPUAllocator: can't allocate" in str(error)


def _advice(world: ParallelContext, footprint: Callable[[], Footprint]) -> str:
    try:
        model = footprint()
    except Exception as error:  # noqa: BLE001 - the user's model may raise anything
        return f"the memory that the model needs could not be measured: {error!r}"
    job, degrees = world.job, world.degrees
    savings = MemorySavings(
        sharded=job.sharded, precision=job.precision is not None, recomputed=bool(job.recomputed)
    )
    now = need(
        model,
        degrees,
        savings,
        simple=job.schedule == "simple",
        keep_gathered=job.schedule == "zero_bubble",
    )
    lines = [f"a rank needs about {_describe(now)} for {degrees.microbatch} samples at once"]
    lines.append("changes to try in the job's distribution, with the bytes that a rank then needs:")
    options = memory_advice(model, degrees, savings)
    return "\n".join(lines + [f"  {_bytes(r.need.total):>8}  {r.change}" for r in options])


def _describe(found: Need) -> str:
    parts = [f"{name} {_bytes(value)}" for name, value in vars(found).items() if value is not None]
    return f"{_bytes(found.total)} ({', '.join(parts)})"


def _bytes(count: int) -> str:
    """Format bytes in decimal units, unlike torch's own errors: 1.5 GB."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"
