"""Changes that would make a rank need fewer bytes, in the order in which to try them. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.errors import ParallelError
from launcher.shared.parallel_dims import ParallelDims
from launcher.shared.rank_memory import Footprint, MemorySavings, Need, need


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
