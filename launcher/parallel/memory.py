"""How many bytes a rank needs to train. Pure arithmetic, of numbers or of tables of them.

A rank has its share of the parameters, their gradients, what the optimizer keeps of them, and, from
each forward pass until its backward pass, the activations: so many bytes for each sample, and some
for none (parameters in 16 bits). Left out is what the process and its libraries take: about 0.2 GB,
or 1 to 2 GB with a GPU. Where a model is cut is known to partitions, module by module, and what its
modules need only while they run (`profiling`); `need` takes it to be cut into equal parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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


def under_way(microbatches: int, partitions: int, stage: int, *, simple: bool) -> int:
    """Microbatches whose activations a stage keeps at once, with one stage on each rank."""
    return microbatches if simple else min(microbatches, partitions - stage)


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Bytes of one microbatch that go over the ends of a stage.

    received, sent: activations. returned: gradients of what was sent.
    """

    received: Any
    sent: Any
    returned: Any


def of_stage(
    held: Any, kept: Any, passing: Any, ends: Ends, *, waiting: int, microbatches: int
) -> Any:
    """Bytes of a stage. held: parameters, gradients, optimizer. kept: of a microbatch under way.

    passing: while a module runs. torch's pipelines have buffers for what all microbatches of a
    batch bring, forward and back, and keep what was sent until its gradient is there.
    """
    buffers = microbatches * (ends.received + ends.returned)
    return held + waiting * (kept + ends.sent) + buffers + passing


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
    waiting = under_way(degrees.microbatches, degrees.pipeline, 0, simple=simple)
    return waiting * (kept.fixed + kept.sample * degrees.microbatch) // degrees.pipeline
