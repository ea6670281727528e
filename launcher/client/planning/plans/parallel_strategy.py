"""The parallel strategy of a model: the first that fits into the accelerators, in a fixed order.

The order is that of the least change: smaller batches with accumulation, 16 bits, activations that
are recomputed, sharding, and then a pipeline, with replicas where ranks are left. The global batch
stays the same. Shorter sequences and smaller images, which change what is learnt, are only named.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.client.catalogue import InstanceType
from launcher.client.spec import DataParallel, ModelParallel
from launcher.shared import Footprint, MemorySavings, Need, ParallelDims, need

#: Bytes of a GPU that a process and its libraries take, at most; see `rank_memory`.
RESERVED = 2 * 10**9
#: Samples at once below which batch normalisation gets worse (Wu and He, "Group Normalization",
#: 2018, figure 1).
FEW_SAMPLES = 16
#: Microbatches per stage with which a pipeline is busy most of the time.
_MICROBATCHES = 4
_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class ModelFigures:
    """The memory of a model, and the settings with which its steps were timed.

    blocks: the module list whose modules are recomputed one by one; None if it has none.
    batch_norm: whether it has batch normalisation; None if unknown. stage_output: bytes of a sample
    that a stage of a pipeline sends to the next one; None if unknown.
    """

    footprint: Footprint
    blocks: str | None = None
    batch_norm: bool | None = None
    precision: str | None = None
    recomputed: bool = False
    stage_output: int | None = None


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to spread a model and its batches over ranks.

    need: bytes of the rank that needs the most, beside those of its batch. available: those of an
    accelerator core, less RESERVED and the batch; None if unknown. changes: what differs from the
    settings of the timed steps.
    """

    degrees: ParallelDims
    savings: MemorySavings
    need: Need
    available: int | None
    changes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Its name: data parallel, sharded, pipeline, or hybrid."""
        if self.degrees.pipeline > 1:
            return "hybrid" if self.degrees.data > 1 else "pipeline"
        return "sharded" if self.savings.sharded else "data parallel"

    @property
    def fits(self) -> bool | None:
        """True if a rank's bytes fit into its accelerator; None if that is unknown."""
        if self.available is None:
            return None
        if self.need.total > self.available:
            return False
        return True if self.need.activations is not None else None

    @property
    def samples_at_once(self) -> int:
        """Samples that a replica's forward pass takes, which batch normalisation sees."""
        return self.degrees.microbatch or 0

    def distribution(self, figures: ModelFigures) -> DataParallel | ModelParallel | None:
        """Return what a job says for it; None where one rank trains as it is."""
        degrees, savings = self.degrees, self.savings
        precision = "bf16" if savings.precision and not figures.precision else figures.precision
        recomputed = (figures.blocks,) if savings.recomputed and figures.blocks else ()
        if degrees.pipeline > 1:
            return ModelParallel(
                partitions=degrees.pipeline,
                microbatches=degrees.microbatches,
                auto_partition=True,
                precision=precision,
                recomputed=recomputed,
            )
        found = DataParallel(
            accumulation=degrees.accumulation,
            sharded=savings.sharded,
            precision=precision,
            recomputed=recomputed,
        )
        return None if degrees.world == 1 and found == DataParallel() else found


def strategy_for(
    figures: ModelFigures,
    instance: InstanceType,
    *,
    ranks: int,
    batch_size: int,
    batch_bytes: float = 0.0,
) -> Strategy:
    """Return the first strategy that fits, or may; the last one if none does.

    batch_size, batch_bytes: of a rank's step, of which the global batch is the sum over the ranks.
    """
    for each in strategies(figures, instance, ranks, batch_size, batch_bytes):
        if each.fits is not False:
            break
    return each


def strategies(
    figures: ModelFigures,
    instance: InstanceType,
    ranks: int,
    batch_size: int,
    batch_bytes: float = 0.0,
) -> Iterator[Strategy]:
    """Yield all strategies, in the order in which to try them."""
    whole = _available(instance)
    for degrees, savings, changes in _ways(figures, ranks, batch_size):
        read = round(batch_bytes * (degrees.batch or batch_size) / batch_size)
        yield Strategy(
            degrees=degrees,
            savings=savings,
            need=need(figures.footprint, degrees, savings),
            available=None if whole is None else whole - read,
            changes=changes,
        )


def _available(instance: InstanceType) -> int | None:
    if instance.accelerator_memory_gib is None:
        return None
    memory = instance.accelerator_memory_gib * _GIB / max(1, instance.accelerator_cores)
    return int(memory) - RESERVED


_Way = tuple[ParallelDims, MemorySavings, tuple[str, ...]]


def _ways(figures: ModelFigures, ranks: int, batch_size: int) -> Iterator[_Way]:
    whole = ParallelDims(world=ranks, global_batch=ranks * batch_size)
    saved = list(_with_savings(figures))
    for savings, changes in saved:
        yield from _accumulated(whole, savings, changes)
    if ranks == 1:
        return
    savings, changes = saved[-1]
    sharded = dataclasses.replace(savings, sharded=True)
    yield from _accumulated(whole, sharded, (*changes, "sharded: true"))
    for stages in (each for each in _divisors(ranks) if each > 1):
        yield from _pipelines(whole, savings, changes, stages)


def _with_savings(figures: ModelFigures) -> Iterator[tuple[MemorySavings, tuple[str, ...]]]:
    """Yield the savings of the timed steps, then with 16 bits, then with recomputation as well."""
    changes: tuple[str, ...] = ()
    savings = MemorySavings(precision=figures.precision is not None, recomputed=figures.recomputed)
    yield savings, changes
    if not savings.precision:
        savings = dataclasses.replace(savings, precision=True)
        changes = (*changes, "precision: bf16")
        yield savings, changes
    if not savings.recomputed and figures.blocks:
        savings = dataclasses.replace(savings, recomputed=True)
        yield savings, (*changes, f"recomputed: [{figures.blocks}]")


def _accumulated(
    whole: ParallelDims, savings: MemorySavings, changes: tuple[str, ...]
) -> Iterator[_Way]:
    """Yield the batch of a rank at once, then in more and more parts."""
    batch_size = whole.batch or 1
    for count in _divisors(batch_size):
        parts = f"accumulation: {count} (batches of {batch_size // count})"
        found = (*changes, parts) if count > 1 else changes
        yield dataclasses.replace(whole, accumulation=count), savings, found


def _pipelines(
    whole: ParallelDims, savings: MemorySavings, changes: tuple[str, ...], stages: int
) -> Iterator[_Way]:
    """Yield pipelines of so many stages, with more and more microbatches."""
    samples = (whole.batch or 1) * stages
    enough = min(samples, _MICROBATCHES * stages)
    for count in (each for each in _divisors(samples) if each >= enough):
        change = f"model_parallel: {{partitions: {stages}, microbatches: {count}}}"
        degrees = dataclasses.replace(whole, pipeline=stages, microbatches=count)
        yield degrees, savings, (*changes, change)


def _divisors(number: int) -> list[int]:
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})
