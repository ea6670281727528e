"""How many bytes a rank needs to train, and what would make them fewer. Pure arithmetic.

A rank has its share of the parameters, their gradients, what the optimizer keeps of them, and, from
each forward pass until its backward pass, the activations: so many bytes for each sample, and some
for none (parameters in 16 bits). Left out are what a module needs only while it runs, and what the
process and its libraries take: about 0.2 GB, or 1 to 2 GB with a GPU. A pipeline is taken to be cut
into equal parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.errors import ParallelError
from launcher.parallel.degrees import Degrees


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Bytes that a forward pass leaves for the backward pass: of each sample, and beside them."""

    sample: int
    fixed: int = 0


@dataclass(frozen=True, kw_only=True)
class Thrift:
    """What saves memory beside the degrees. Names are those of a job's distribution."""

    sharded: bool = False
    precision: bool = False  # 16 bits in forward passes
    recomputed: bool = False  # the inside of each block


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """A model's bytes, whole.

    parameters, gradients: of all that are trained. states: of the optimizer. largest: parameters of
        the largest block. activations: by (precision, recomputed); those that are not known miss.
    """

    parameters: int
    gradients: int
    states: int
    largest: int = 0
    activations: Mapping[tuple[bool, bool], Activations] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Need:
    """Bytes of one rank: of the one with the most. activations: None where they are not known."""

    parameters: int
    gradients: int
    states: int
    activations: int | None

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.states + (self.activations or 0)


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One thing to try. change: what to write into the job's distribution."""

    change: str
    need: Need


def need(model: Footprint, degrees: Degrees, thrift: Thrift, *, simple: bool = False) -> Need:
    """What a rank of a job needs. simple: the schedule that keeps all microbatches' activations."""
    cut, shared = degrees.pipeline, degrees.data if thrift.sharded else 1
    # Replicas exchange gradients in a copy of them (DDP's buckets), shares of them in place; a
    # shard has two blocks together at a time, the one that runs and the one after it.
    copies = 2 if degrees.data > 1 and not thrift.sharded else 1
    together = 2 * model.largest if shared > 1 else 0
    return Need(
        parameters=model.parameters // cut // shared + together,
        gradients=copies * model.gradients // cut // shared,
        states=model.states // cut // shared,
        activations=_activations(model, degrees, thrift, simple=simple),
    )


def _activations(model: Footprint, degrees: Degrees, thrift: Thrift, *, simple: bool) -> int | None:
    """Of the first stage, which has the most microbatches that wait for their way back."""
    kept = model.activations.get((thrift.precision, thrift.recomputed))
    if kept is None or degrees.microbatch is None:
        return None
    many = degrees.microbatches
    waiting = many if simple else min(many, degrees.pipeline)
    return waiting * (kept.fixed + kept.sample * degrees.microbatch) // degrees.pipeline


def ladder(model: Footprint, degrees: Degrees, thrift: Thrift) -> list[Rung]:
    """What would need less, each by itself, in the order in which to try it: the cheapest first."""
    now = need(model, degrees, thrift).total
    rungs = [
        Rung(change=change, need=need(model, other, saving))
        for change, other, saving in _ways(degrees, thrift)
    ]
    return [rung for rung in rungs if rung.need.activations is None or rung.need.total < now]


def _ways(degrees: Degrees, thrift: Thrift) -> Iterator[tuple[str, Degrees, Thrift]]:
    yield from _smaller(degrees, thrift)
    if not thrift.precision:
        yield "precision: bf16", degrees, dataclasses.replace(thrift, precision=True)
    if not thrift.recomputed:
        yield "recomputed: [its blocks]", degrees, dataclasses.replace(thrift, recomputed=True)
    if not thrift.sharded and degrees.pipeline == 1:
        wider = _with(degrees, world=max(degrees.world, 2))
        if wider is not None:
            shards = dataclasses.replace(thrift, sharded=True)
            yield f"sharded: true{_on(degrees, wider)}", wider, shards
    yield from _deeper(degrees, thrift)


def _smaller(degrees: Degrees, thrift: Thrift) -> Iterator[tuple[str, Degrees, Thrift]]:
    """One sample at once."""
    if not degrees.microbatch or degrees.microbatch == 1:
        return
    name = "accumulation" if degrees.pipeline == 1 else "microbatches"
    count = getattr(degrees, name) * degrees.microbatch
    if (smaller := _with(degrees, **{name: count})) is not None:
        yield f"{name}: {count}", smaller, thrift


def _deeper(degrees: Degrees, thrift: Thrift) -> Iterator[tuple[str, Degrees, Thrift]]:
    """All ranks one replica of many stages, and replicas of two stages."""
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
            whole = dataclasses.replace(thrift, sharded=False)
            yield f"{change}{hybrid}{_on(degrees, deeper)}", deeper, whole


def _on(degrees: Degrees, other: Degrees) -> str:
    return "" if other.world == degrees.world else f", on {other.world} ranks"


def _with(degrees: Degrees, **changes: Any) -> Degrees | None:
    """None for what does not divide."""
    try:
        return dataclasses.replace(degrees, virtual_stages=1, **changes)
    except ParallelError:
        return None
