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

from launcher.shared.parallel_dims import ParallelDims


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
        of the largest block that shards gather by itself. rest: parameters in no such block.
        activations: by (precision, recomputed); unknown ones are absent.
    """

    parameters: int
    gradients: int
    states: int
    largest: int = 0
    rest: int = 0
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
    model: Footprint,
    degrees: ParallelDims,
    savings: MemorySavings,
    *,
    simple: bool = False,
    keep_gathered: bool = False,
) -> Need:
    """Return the bytes that a rank needs.

    simple: the schedule that keeps the activations of all microbatches. keep_gathered: the one with
    which shards stay gathered, "zero_bubble".
    """
    cut, shards = degrees.pipeline, degrees.data if savings.sharded else degrees.shard_degree
    # Replicas exchange gradients in a copy (DDP's buckets), and shards in place.
    copies = 2 if degrees.data > 1 and shards == 1 else 1
    stage = StageState(
        parameters=model.parameters // cut,
        gradients=copies * model.gradients // cut,
        states=model.states // cut,
        largest=model.largest,
        rest=model.rest // cut,
    )
    held = stage.on_rank(
        shards,
        accumulates=not savings.sharded or degrees.accumulation > 1,
        keep_gathered=keep_gathered,
    )
    return Need(
        parameters=held.parameters,
        gradients=held.gradients,
        states=held.states,
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


@dataclass(frozen=True, kw_only=True)
class StageState:
    """Bytes of a stage, or of a model in one stage, besides its activations.

    parameters, gradients: of trained and other parameters. states: of the optimizer. largest:
    parameters of the largest block that is gathered by itself. rest: parameters in no such block.
    """

    parameters: int
    gradients: int
    states: int
    largest: int = 0
    rest: int = 0

    def on_rank(
        self, shard_degree: int, *, accumulates: bool = True, keep_gathered: bool = False
    ) -> StageState:
        """Return what each of the ranks needs that share the stage, at most at a time.

        Parameters are a rank's share and what is gathered: whatever is in no block, the block that
        runs, and the next one, which is fetched early. Gradients are added up whole before they are
        reduced.

        accumulates: false if gradients are reduced in the only backward pass of a step, block by
            block. keep_gathered: true if blocks stay gathered during a step.
        """
        if shard_degree == 1:
            return self
        gathered = self.parameters
        if not keep_gathered:
            gathered = min(self.rest + 2 * self.largest, self.parameters)
        return StageState(
            parameters=_share(self.parameters, shard_degree) + gathered,
            gradients=self.gradients if accumulates else _share(self.gradients, shard_degree),
            states=_share(self.states, shard_degree),
            largest=self.largest,
            rest=self.rest,
        )


def _share(count: int, shard_degree: int) -> int:
    """Return the largest share of some bytes."""
    return -(-count // shard_degree)
