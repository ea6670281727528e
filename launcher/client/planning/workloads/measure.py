"""A measured amount with its range, as workloads have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measured amount, with the range that its mean lies in.

    Measures are inputs of predictions; an Interval is a prediction.
    deviation: the standard deviation of single samples around the mean, 0 if unknown.
    """

    mean: float
    low: float
    high: float
    deviation: float = 0.0

    @classmethod
    def exact(cls, mean: float) -> Measure:
        """Return a measure without uncertainty."""
        return cls(mean=mean, low=mean, high=mean)

    @classmethod
    def within(cls, mean: float, share: float) -> Measure:
        """Return a measure that may be off by a share of it on either side."""
        return cls(mean=mean, low=mean * (1 - share), high=mean * (1 + share))
