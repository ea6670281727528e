"""The change of price between two jobs, with its uncertainty. Pure.

The ratio of two prices per step is (dollars per hour x seconds per step) of one over the other.
Prices are exact, so its uncertainty is that of the two mean step times: their relative standard
errors add in squares, and the 95 % interval is that of the logarithm of the ratio (delta method),
with Student's t of the job that has fewer batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from launcher.client.planning.diagnosis.mean_step_time import MeanStepTime, t95


@dataclass(frozen=True, kw_only=True)
class PriceChange:
    """A change of the price of the same work, as a share: -0.46 is 46 % less.

    low, high: the 95 % interval; None where a job has too few windows of steps.
    """

    expected: float
    low: float | None = None
    high: float | None = None


def price_change(
    before: MeanStepTime,
    after: MeanStepTime,
    *,
    per_hour_before: float,
    per_hour_after: float,
    work_ratio: float = 1.0,
) -> PriceChange:
    """Return the change of the price per step from one job to another.

    per_hour_before, per_hour_after: USD of all hosts. work_ratio: samples of a step of the later
    job over those of the earlier one, for the change of the price per sample.
    """
    ratio = per_hour_after * after.mean / (per_hour_before * before.mean) / work_ratio
    if before.error is None or after.error is None:
        return PriceChange(expected=ratio - 1)
    spread = math.hypot(before.error / before.mean, after.error / after.mean)
    factor = math.exp(t95(min(before.batches, after.batches)) * spread)
    return PriceChange(expected=ratio - 1, low=ratio / factor - 1, high=ratio * factor - 1)
