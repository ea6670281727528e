"""Batches that are prepared ahead of each rank, and waits for batches that take long.

A rank takes its batches in order, and all ranks train together. A batch that takes longer than all
the steps whose batches are ahead stops the training, and once these are there, the workers too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from launcher.client.spec import DataService
from launcher.shared import PREFETCH_SHARE, WINDOW_PER_WORKER, slab_bytes, window_for

#: Share of a step by which it may be longer before more batches are prepared ahead.
FEW_STALLS = 0.005
#: Share of a host's memory that is used in any case: a data host may be slower than planned.
_CHEAP = 1 / 20
#: Probability of a stall during the batches that are ahead, below which stalls are neglected.
_RARE = 1e-3
#: Ratio of two lengths of a stall between which its probability is taken to be linear.
_RATIO = 1.1
_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Prefetch:
    """The prefetch of a job. batches: ahead of each rank. host_bytes: `prefetch_bytes` for it."""

    batches: int
    host_bytes: int


class BatchTimes(NamedTuple):
    """Seconds of a worker per batch.

    samples: of a batch, which are log-normal. variation: of a sample, its deviation over its mean.
    """

    mean: float
    samples: int = 1
    variation: float = 0.0

    def probability_longer(self, seconds: float) -> float:
        """Return the probability that a batch takes longer.

        The larger of two estimates: all samples together are log-normal, or one of them is so long
        and the others are as usual, which is right for the longest batches.
        """
        if not self.variation or not 0 < self.mean < math.inf:
            return float(self.mean > seconds)
        whole = _log_normal_longer(seconds, self.mean, self.variation / math.sqrt(self.samples))
        each = self.mean / self.samples
        one = _log_normal_longer(seconds - (self.samples - 1) * each, each, self.variation)
        return min(1.0, max(whole, self.samples * one))


def stall_seconds(times: BatchTimes, ranks: int, step: float, ahead: int) -> float:
    """Return the seconds by which a step of all ranks is longer for batches that take long.

    step: its seconds without them. ahead: batches that are prepared ahead of each rank. Those
    `ahead` steps take as long as their slowest batch; ranks that stall together count once.
    """
    if not times.variation or not 0 < step < math.inf:
        return 0.0

    def probability(seconds: float) -> float:
        return -math.expm1(-ranks * ahead * times.probability_longer(seconds))

    length, before, total = ahead * step, probability(ahead * step), 0.0
    while before > _RARE:
        after = probability(length * _RATIO)
        total += (before + after) / 2 * length * (_RATIO - 1)
        length, before = length * _RATIO, after
    return total / ahead


def prefetch_for(
    times: BatchTimes,
    step: float,
    *,
    workers_per_rank: float,
    workers: int,
    ranks: int,
    hosts: int,
    batch_bytes: float,
    memory_gib: float | None,
) -> Prefetch:
    """Return a prefetch that keeps all workers busy, also while a batch takes long.

    step: seconds of a step that no batch stops. workers_per_rank: workers for each batch of a step,
    of the group that has more of them. workers, ranks: of the whole job. hosts: that train, each
    with so much memory, of which the prefetch takes PREFETCH_SHARE at most.
    """
    per_batch = slab_bytes(math.ceil(batch_bytes)) * (ranks // hosts)
    most = window_for(workers, ranks)
    if memory_gib is not None:
        most = min(most, int(memory_gib * _GIB * PREFETCH_SHARE / per_batch))
    most = max(1, most)
    ahead = min(most, math.ceil(min(most, WINDOW_PER_WORKER * workers_per_rank)) + 1)
    while ahead < most and stall_seconds(times, ranks, step, ahead) > FEW_STALLS * step:
        ahead = min(most, 2 * ahead)
    cheap = int((memory_gib or 0) * _GIB * _CHEAP)
    enough = min(per_batch * most, max(DataService.prefetch_bytes, cheap))
    host_bytes = max(DataService.prefetch_bytes, per_batch * ahead, enough)
    return Prefetch(batches=min(most, host_bytes // per_batch), host_bytes=host_bytes)


def _log_normal_longer(seconds: float, mean: float, variation: float) -> float:
    """Return the probability that something log-normal takes longer."""
    if seconds <= 0:
        return 1.0
    variance = math.log1p(variation**2)
    middle = math.log(mean) - variance / 2
    return math.erfc((math.log(seconds) - middle) / math.sqrt(2 * variance)) / 2
