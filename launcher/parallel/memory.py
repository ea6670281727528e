"""Arithmetic of the bytes that a rank needs to train. Pure; takes numbers or arrays of numbers.

A rank holds its share of the parameters, their gradients, the optimizer state, and, from each
forward pass until its backward pass, the activations: some bytes per sample, and some that do not
depend on the batch (parameters in 16 bits). The process and its libraries are not counted: about
0.2 GB, or 1 to 2 GB with a GPU. Partitions know the cuts module by module, and `profiling` what
modules need only while they run; `need` assumes a model cut into equal parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.parallel.dims import ParallelDims


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Bytes that a forward pass keeps for the backward pass.

    sample: for each sample. fixed: independent of the batch.
    """

    sample: int
    fixed: int = 0


@dataclass(frozen=True, kw_only=True)
class MemorySavings:
    """Settings that save memory besides the degrees, named as in a job's distribution."""

    sharded: bool = False
    precision: bool = False  # 16 bits in forward passes
    recomputed: bool = False  # the activations within each block


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Bytes of a whole model.

    parameters, gradients: of all trained parameters. states: of the optimizer. largest: parameters
        of the largest block. activations: by (precision, recomputed); unknown ones are absent.
    """

    parameters: int
    gradients: int
    states: int
    largest: int = 0
    activations: Mapping[tuple[bool, bool], Activations] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Need:
    """Bytes of the rank that needs the most. activations: None where unknown."""

    parameters: int
    gradients: int
    states: int
    activations: int | None

    @property
    def total(self) -> int:
        """The sum of all known bytes."""
        return self.parameters + self.gradients + self.states + (self.activations or 0)


def under_way(microbatches: int, partitions: int, stage: int, *, simple: bool) -> int:
    """Return how many microbatches' activations a stage holds at once, with one stage per rank."""
    return microbatches if simple else min(microbatches, partitions - stage)


@dataclass(frozen=True, kw_only=True)
class StageEnds:
    """Bytes of one microbatch that cross the boundaries of a stage.

    received, sent: activations. returned: gradients of what was sent.
    """

    received: Any
    sent: Any
    returned: Any


def of_stage(
    held: object, kept: object, passing: object, ends: StageEnds, *, waiting: int, microbatches: int
) -> object:
    """Return the bytes of a stage.

    held: parameters, gradients, optimizer state. kept: activations of one in-flight microbatch.
    passing: needed only while a module runs. torch's pipelines have buffers for what all
    microbatches of a batch receive, forward and back, and keep what was sent until its gradient
    arrives.
    """
    buffers = microbatches * (ends.received + ends.returned)
    return held + waiting * (kept + ends.sent) + buffers + passing


def need(
    model: Footprint, degrees: ParallelDims, savings: MemorySavings, *, simple: bool = False
) -> Need:
    """Return the bytes that a rank needs.

    simple: the schedule that keeps the activations of all microbatches.
    """
    cut, shared = degrees.pipeline, degrees.data if savings.sharded else 1
    # Replicas exchange gradients in a copy (DDP's buckets), and shards in place. A sharded rank has
    # two blocks gathered at a time: the one that runs and the next one.
    copies = 2 if degrees.data > 1 and not savings.sharded else 1
    together = 2 * model.largest if shared > 1 else 0
    return Need(
        parameters=model.parameters // cut // shared + together,
        gradients=copies * model.gradients // cut // shared,
        states=model.states // cut // shared,
        activations=_activations(model, degrees, savings, simple=simple),
    )


def _activations(
    model: Footprint, degrees: ParallelDims, savings: MemorySavings, *, simple: bool
) -> int | None:
    """Return the activation bytes of stage 0, which holds the most in-flight microbatches."""
    kept = model.activations.get((savings.precision, savings.recomputed))
    if kept is None or degrees.microbatch is None:
        return None
    waiting = under_way(degrees.microbatches, degrees.pipeline, 0, simple=simple)
    return waiting * (kept.fixed + kept.sample * degrees.microbatch) // degrees.pipeline
