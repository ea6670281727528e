"""Cost estimates for a job's instances, from hourly prices and seconds.

An unknown price is None, and so is every sum that includes it.
"""

from __future__ import annotations

import calendar
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from launcher.client.catalogue.instances import find
from launcher.client.catalogue.prices import Price, PriceList, aws_regions, update_fix

_HOUR = 3600
#: Types that the origin of prices names.
_MOST_NAMES = 3
#: Behind an amount that an old price is part of, and behind that price's month.
OLD_MARK = "*"


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

    day: of the estimate, or when the job was created; prices of OLD_MONTHS before it are old.
    volume_gb: of the volumes of all hosts. storage: the price of one GB of them per hour; None if
    it is unknown, and left out of the sums.
    """

    groups: tuple[GroupCost, ...]
    region: str | None
    day: date
    volume_gb: int = 0
    storage: Price | None = None

    @property
    def per_hour(self) -> float | None:
        """USD per hour for all groups and their volumes."""
        return _sum([*(group.per_hour for group in self.groups), self.volumes_per_hour or 0.0])

    @property
    def volumes_per_hour(self) -> float | None:
        """USD per hour for the volumes; None if their price is unknown."""
        if not self.volume_gb:
            return 0.0
        return None if self.storage is None else self.volume_gb * self.storage.per_hour

    @property
    def unknown_types(self) -> tuple[str, ...]:
        """The instance types without a price."""
        unknown = (group.instance_type for group in self.groups if group.price is None)
        return tuple(dict.fromkeys(unknown))

    @property
    def sources(self) -> tuple[str, ...]:
        """The origins of the prices, as `price_sources` has them."""
        prices = [group.price for group in self.groups]
        prices += [self.storage] if self.volume_gb else []
        return price_sources(filter(None, prices), self.region, self.day)

    @property
    def is_old(self) -> bool:
        """True if the price of a group is old."""
        return any(map(self.is_old_price, self.groups))

    def is_old_price(self, group: GroupCost) -> bool:
        """Return whether a group's price is known, and old."""
        return group.price is not None and group.price.is_old(self.day)

    def dollars(self, seconds: float) -> float | None:
        """Return the USD for all groups and their volumes over the given seconds."""
        return None if self.per_hour is None else self.per_hour * (seconds / _HOUR)


def price_sources(prices: Iterable[Price], region: str | None, day: date) -> tuple[str, ...]:
    """Return the origins of prices as texts: region, months, age, and the command of an update.

    region: that they are used for; one that AWS does not have counts as unknown, as None does.
    day: from which their age counts.
    """
    region = region if region in aws_regions() else None
    origins = defaultdict[tuple[Path | None, str | None], list[Price]](list)
    for price in prices:
        if price.file or price.region:
            origins[price.file, None if price.file else price.region].append(price)
    return tuple(
        f"your own prices ({file}){_months(found, day)}"
        if place is None
        else f"{place} on-demand prices{_months(found, day, update_fix(region or place))}"
        f"{_elsewhere(place, region)}"
        for (file, place), found in origins.items()
    )


def _elsewhere(place: str, region: str | None) -> str:
    differs = f"; {region} differs" if region != place else ""
    return differs if region else "; other regions differ"


def _months(prices: Iterable[Price], day: date, fix: str = "") -> str:
    """Return the months of prices, marked where they are old, and their age; empty without any."""
    dated = sorted((each for each in prices if each.as_of), key=lambda each: each.as_of or "")
    if not dated:
        return ""
    months = (f"{_month(each)}{OLD_MARK if each.is_old(day) else ''}" for each in dated)
    ages = [each.months_before(day) for each in dated]
    alone = dict.fromkeys(each.instance_type for each in dated if each.is_of_one_copy)
    doubt = f"one public copy alone has those of {_few(list(alone))}" if alone else ""
    words = filter(None, [_age(min(ages), max(ages)), doubt, fix])
    return f" of {', '.join(dict.fromkeys(months))} ({'; '.join(words)})"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def _age(least: int, most: int) -> str:
    if least < 0:
        return f"up to {-least} months later"
    if not most:
        return "less than a month old"
    span = f"{most}" if least == most else f"{least} to {most}"
    return f"{span} {'month' if most == 1 else 'months'} old"


def volume_gb(groups: Iterable[Iterable[tuple[str, int]]], size: int) -> int:
    """Return the most GB of volumes of groups, each given as the types and counts that it may get.

    size: of a volume; a host with disks of its own gets none.
    """
    return size * sum(
        max((count for name, count in choices if not _has_disks(name)), default=0)
        for choices in groups
    )


def _has_disks(instance_type: str) -> bool:
    known = find(instance_type)
    return known is not None and bool(known.has_local_storage)


def estimate(
    groups: Iterable[tuple[str, str, int]],
    prices: PriceList,
    region: str | None,
    day: date,
    volume_gb: int = 0,
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
    return CostEstimate(
        groups=tuple(costs),
        region=region,
        day=day,
        volume_gb=volume_gb,
        storage=prices.storage(region),
    )


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


def _sum(amounts: Iterable[float | None]) -> float | None:
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


def _month(price: Price) -> str:
    """Format "2026-11" and "2026-11-20" as "November 2026"."""
    year, month, *_ = f"{price.as_of}-01".split("-")
    return f"{calendar.month_name[int(month)]} {year}"
