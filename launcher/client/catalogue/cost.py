"""Cost estimates for a job's instances, from hourly prices and seconds.

An unknown price is None, and so is every sum that includes it.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from launcher.client.catalogue.prices import Price, PriceList

_HOUR = 3600
#: Behind an amount that an old price is part of; its source has the words.
OLD_MARK = "*"
#: Words beside an old price.
OLD_PRICE = "old; `launcher plan types --update` reads today's"


@dataclass(frozen=True, kw_only=True)
class GroupCost:
    """The instances of one group, and the price of one instance (None if unknown)."""

    name: str
    instance_type: str
    count: int
    price: Price | None

    @property
    def per_hour(self) -> float | None:
        """USD per hour for all its instances."""
        return None if self.price is None else self.count * self.price.per_hour

    def dollars(self, seconds: float) -> float | None:
        """Return the USD for all its instances over the given seconds."""
        return None if self.per_hour is None else self.per_hour * (seconds / _HOUR)


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """The cost of a job's groups in a region (None if the region is unknown).

    day: of the estimate, or when the job was created; prices of a year before it are old.
    """

    groups: tuple[GroupCost, ...]
    region: str | None
    day: date

    @property
    def per_hour(self) -> float | None:
        """USD per hour for all groups."""
        return _sum(group.per_hour for group in self.groups)

    @property
    def unknown_types(self) -> tuple[str, ...]:
        """The instance types without a price."""
        unknown = (group.instance_type for group in self.groups if group.price is None)
        return tuple(dict.fromkeys(unknown))

    @property
    def sources(self) -> tuple[str, ...]:
        """The origins of the prices, with month and region, as text."""
        prices = (group.price for group in self.groups if group.price)
        return tuple(dict.fromkeys(word for price in prices for word in self._source(price)))

    @property
    def is_old(self) -> bool:
        """True if the price of a group is old."""
        return any(map(self.is_old_price, self.groups))

    def is_old_price(self, group: GroupCost) -> bool:
        """Return whether a group's price is known, and old."""
        return group.price is not None and group.price.is_old(self.day)

    def dollars(self, seconds: float) -> float | None:
        """Return the USD for all groups over the given seconds."""
        return _sum(group.dollars(seconds) for group in self.groups)

    def _source(self, price: Price) -> Iterator[str]:
        if price.file is not None:
            yield f"your own prices ({price.file})"
        elif price.region is not None:
            differs = f"; {self.region} differs" if self.region != price.region else ""
            elsewhere = differs if self.region else "; other regions differ"
            old = f" ({OLD_PRICE})" if price.is_old(self.day) else ""
            yield f"{price.region} on-demand prices of {month_text(price.as_of)}{old}{elsewhere}"


def estimate(
    groups: Iterable[tuple[str, str, int]], prices: PriceList, region: str | None, day: date
) -> CostEstimate:
    """Estimate the cost of groups given as (name, instance type, count) on a day.

    >>> day = date(2026, 11, 26)
    >>> cost = estimate([("data", "ml.g5.16xlarge", 2)], PriceList(), region=None, day=day)
    >>> cost.per_hour, cost.dollars(1800)
    (10.24, 5.12)
    """
    costs = (
        GroupCost(name=name, instance_type=type_, count=count, price=prices.find(type_, region))
        for name, type_, count in groups
    )
    return CostEstimate(groups=tuple(costs), region=region, day=day)


def spot_saving(training_seconds: float | None, billable_seconds: float | None) -> float | None:
    """Return the share saved by spot instances, 0 to 1, or None if the seconds are unknown.

    AWS's formula: https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html
    """
    if not training_seconds or billable_seconds is None:
        return None
    return 1 - billable_seconds / training_seconds


def dollars_text(dollars: float | None) -> str:
    """Format dollars as "$12.31", None as "unknown", and less than half a cent as "<$0.01"."""
    if dollars is None:
        return "unknown"
    return "<$0.01" if 0 < dollars < 0.005 else f"${dollars:,.2f}"


def old_price_note(types: Iterable[str]) -> str:
    """Return the note about instance types whose prices are old."""
    return f"The price of {', '.join(types)} is {OLD_PRICE}."


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


def month_text(as_of: str | None) -> str:
    """Format "2026-11" and "2026-11-20" as "November 2026"."""
    if as_of is None:
        return "an unknown date"
    year, month, *_ = as_of.split("-")
    return f"{calendar.month_name[int(month)]} {year}"
