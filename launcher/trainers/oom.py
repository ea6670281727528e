"""Out-of-memory errors with advice: what the rank needs, and settings that need less."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from launcher.errors import ParallelError
from launcher.parallel import ParallelContext
from launcher.shared import Footprint, MemorySavings, Need, ParallelDims, need


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


@dataclass(frozen=True, kw_only=True)
class MemoryOption:
    """One change to try. change: what to write into the job's distribution."""

    change: str
    need: Need


def memory_advice(
    model: Footprint, degrees: ParallelDims, savings: MemorySavings
) -> list[MemoryOption]:
    """Return changes that each reduce the need by themselves, the cheapest to try first."""
    now = need(model, degrees, savings).total
    options = [
        MemoryOption(change=change, need=need(model, other, saving))
        for change, other, saving in _ways(degrees, savings)
    ]
    return [
        option for option in options if option.need.activations is None or option.need.total < now
    ]


def _ways(
    degrees: ParallelDims, savings: MemorySavings
) -> Iterator[tuple[str, ParallelDims, MemorySavings]]:
    yield from _smaller(degrees, savings)
    if not savings.precision:
        yield "precision: bf16", degrees, dataclasses.replace(savings, precision=True)
    if not savings.recomputed:
        yield "recomputed: [its blocks]", degrees, dataclasses.replace(savings, recomputed=True)
    if degrees.pipeline > 1 and degrees.shard_degree < degrees.data:
        yield (
            f"shard_degree: {degrees.data}",
            dataclasses.replace(degrees, shard_degree=degrees.data),
            savings,
        )
    if not savings.sharded and degrees.pipeline * degrees.shard_degree == 1:
        wider = _with(degrees, world=max(degrees.world, 2))
        if wider is not None:
            shards = dataclasses.replace(savings, sharded=True)
            yield f"sharded: true{_on(degrees, wider)}", wider, shards
    yield from _deeper(degrees, savings)


def _smaller(
    degrees: ParallelDims, savings: MemorySavings
) -> Iterator[tuple[str, ParallelDims, MemorySavings]]:
    """Yield microbatches of one sample."""
    if not degrees.microbatch or degrees.microbatch == 1:
        return
    name = "accumulation" if degrees.pipeline == 1 else "microbatches"
    count = getattr(degrees, name) * degrees.microbatch
    if (smaller := _with(degrees, **{name: count})) is not None:
        yield f"{name}: {count}", smaller, savings


def _deeper(
    degrees: ParallelDims, savings: MemorySavings
) -> Iterator[tuple[str, ParallelDims, MemorySavings]]:
    """Yield one replica with a stage on each rank, and replicas of two stages."""
    ranks = max(degrees.world, 2)
    for stages in dict.fromkeys((ranks, 2)):
        if stages <= degrees.pipeline or ranks % stages:
            continue
        replicas = ranks // stages
        samples = (degrees.global_batch or 0) // replicas
        many = next((m for m in (4 * stages, 2 * stages, stages) if samples % m == 0), 1)
        deeper = _with(degrees, world=ranks, pipeline=stages, microbatches=many, accumulation=1)
        if deeper is not None:
            change = f"model_parallel: {{partitions: {stages}, microbatches: {many}}}"
            hybrid = f", {replicas} replicas" if replicas > 1 else ""
            whole = dataclasses.replace(savings, sharded=False)
            yield f"{change}{hybrid}{_on(degrees, deeper)}", deeper, whole


def _on(degrees: ParallelDims, other: ParallelDims) -> str:
    return "" if other.world == degrees.world else f", on {other.world} ranks"


def _with(degrees: ParallelDims, **changes: Any) -> ParallelDims | None:
    """Return the changed degrees, or None if they do not divide."""
    try:
        return dataclasses.replace(degrees, virtual_stages=1, **changes)
    except ParallelError:
        return None
