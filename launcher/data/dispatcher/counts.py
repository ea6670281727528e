"""Counts of consumed batches, by the host that prepared them and by rank. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.errors import WireError


@dataclass(kw_only=True)
class Counts:
    """Batches consumed by the ranks of one receiver, counted by preparing host and by rank."""

    prepared: Counter[str] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, prepared: Mapping[str, int], received: Mapping[str, int]) -> Counts:
        """Build the counts from a receiver's message.

        JSON keys are strings, so ranks are parsed here; raises WireError for a key that is not a
        number.
        """
        try:
            by_rank = {int(rank): count for rank, count in received.items()}
        except ValueError as error:
            raise WireError(f"batches of a rank that is no number: {error}") from error
        return cls(prepared=Counter(prepared), received=Counter(by_rank))
