"""Hourly prices of instances: the dated prices.csv, overridden by a file of the user's own."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from pathlib import Path

from launcher.client.catalogue.catalogue_files import (
    packaged_table,
    read_table,
    updated_price_files,
)
from launcher.client.catalogue.instances import near
from launcher.client.home import home_folder
from launcher.errors import Problem, SpecError
from launcher.shared import did_you_mean, open_readable

#: Path of the user's own file; if unset, prices.csv in the folder of Launcher's jobs is read.
PRICES_VARIABLE = "LAUNCHER_PRICES"
#: Months after which a price is called old.
OLD_MONTHS = 3
#: Key of sources.csv for prices that no second copy confirms.
_ONE_COPY = "aws-copy"
#: Region whose prices stand for those of regions without.
_APPROXIMATION = "us-east-1"
_COLUMNS = ("instance_type", "price_per_hour")
#: In place of an instance type: one GB of a volume, whose price is of a month.
STORAGE = "storage"
#: Of the shortest month, so that a GB of an hour does not cost more than what is computed.
_HOURS_OF_MONTH = 28 * 24
#: Form of the names of types, of which some are no catalogue's.
_TYPE = re.compile(r"ml\.[a-z0-9-]+\.(\d*x?large|medium|small|metal)|local|local_gpu|storage")
_DATE = re.compile(r"\d{4}(-\d\d){0,2}")


def today() -> date:
    """Return the day by which prices are called old: today's date, in UTC."""
    return _now().date()


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, kw_only=True)
class Price:
    """The price of one instance per hour, in USD, on demand and without storage.

    region: the region it applies to; None means all. as_of: the day or month of the price, such
    as "2026-11", or None if unknown. file: the user's file with the price; None for Launcher's own.
    source: a key of sources.csv, or the origin as text; None for the user's own.
    spot: the least and the most that the user expects to pay per hour for a spot instance; None if
    not given.
    """

    instance_type: str
    per_hour: float
    region: str | None = None
    as_of: str | None = None
    file: Path | None = None
    source: str | None = None
    spot: tuple[float, float] | None = None

    @property
    def is_of_one_copy(self) -> bool:
        """True if one public copy of AWS's list alone has the price, which nothing confirms."""
        return self.source == _ONE_COPY

    def is_of(self, region: str | None) -> bool:
        """Return whether the price is a region's own, and does not just stand for it."""
        return self.region in (None, region)

    def months_before(self, day: date) -> int:
        """Return the months from the price's date to a day; 0 if the price has no date."""
        if self.as_of is None:
            return 0
        year, month, *_ = (int(part) for part in f"{self.as_of}-01".split("-"))
        return (day.year - year) * 12 + day.month - month

    def is_old(self, day: date) -> bool:
        """Return whether the price has a date, OLD_MONTHS or more from a day."""
        return abs(self.months_before(day)) >= OLD_MONTHS


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """Launcher's prices, overridden by those of updates, and by the user's own.

    updated: of all updates that were kept. day: whose prices are found; None for the newest.
    """

    own: tuple[Price, ...] = ()
    updated: tuple[Price, ...] = ()
    day: date | None = None

    def find(self, instance_type: str, region: str | None) -> Price | None:
        """Return the price of a type, or None if it is unknown.

        Prices of us-east-1 approximate those of a region whose own are unknown, and `Price.region`
        names the region they are from. A region that was updated has the prices of that update
        alone: a type that AWS no longer lists has none.
        """
        return (
            self._own(instance_type, region)
            or _packaged_prices().get((instance_type, None))
            or self._listed(instance_type, region)
            or self._listed(instance_type, _APPROXIMATION, unless=region)
        )

    def storage(self, region: str | None) -> Price | None:
        """Return the price of one GB of a volume per hour, of a region itself; None if unknown."""
        found = self._own(STORAGE, region) or self._listed(STORAGE, region)
        return found and replace(found, per_hour=found.per_hour / _HOURS_OF_MONTH)

    def unlisted_on(self, instance_type: str, region: str) -> str | None:
        """Return the date of a region's last update if it has no such type; else None."""
        day = self._last_update(region)
        return None if day is None or instance_type in self._updates[region][day] else day

    def _own(self, instance_type: str, region: str | None) -> Price | None:
        by_region = {each.region: each for each in self.own if each.instance_type == instance_type}
        return by_region.get(region) or by_region.get(None)

    @functools.cached_property
    def _updates(self) -> Mapping[str | None, Mapping[str, Mapping[str, Price]]]:
        """The prices by region, date of the update and type; the dates from the first on."""
        found: dict[str | None, dict[str, dict[str, Price]]] = {}
        for each in sorted(self.updated, key=lambda price: price.as_of or ""):
            of_region = found.setdefault(each.region, {})
            of_region.setdefault(each.as_of or "", {})[each.instance_type] = each
        return found

    def _listed(self, name: str, region: str | None, unless: str | None = None) -> Price | None:
        """Return a region's price of its last update until the day, or of our table before it.

        unless: a region with updates, whose types have no other region's price.
        """
        if unless in self._updates:
            return None
        updates = self._updates.get(region, {})
        day = self._last_update(region)
        if day is not None:
            return updates[day].get(name)
        first = next(iter(updates.values()), {})
        return _packaged_prices().get((name, region)) or first.get(name)

    def _last_update(self, region: str | None) -> str | None:
        until = self.day.isoformat() if self.day else "9999"
        return max((day for day in self._updates.get(region, {}) if day <= until), default=None)


def price_list(day: date | None = None) -> PriceList:
    """Return all prices, as they were on a day.

    Raises SpecError with every bad line of the user's own file, and for a damaged update.
    """
    updated = tuple(price for file in updated_price_files() for price in read_updated(file))
    return PriceList(own=tuple(_own_prices()), updated=updated, day=day)


def _own_prices() -> list[Price]:
    file = own_file()
    try:
        with open_readable(file) as opened:
            text = opened.read().decode("utf-8-sig")  # spreadsheets mark UTF-8
        rows = list(read_table(text))
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not os.environ.get(PRICES_VARIABLE):
            return []
        raise SpecError([_unreadable(file, error)]) from error
    if problems := [problem for number, row in rows for problem in _problems(file, number, row)]:
        raise SpecError(problems)
    return [_read(row, file) for _, row in rows]


def read_updated(file: Path) -> list[Price]:
    """Return the prices of all updates of a region; raises SpecError for a damaged file."""
    try:
        rows = list(read_table(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise SpecError([_damaged(file, str(error))]) from error
    if problem := next(
        (each for number, row in rows for each in _problems(file, number, row)), None
    ):
        raise SpecError([_damaged(file, f"{problem.what} ({problem.where})")])
    return [_read(row) for _, row in rows]


def _damaged(file: Path, what: str) -> Problem:
    return Problem(
        what=f"the updated prices cannot be read: {what}",
        where=str(file),
        fix=f"run `launcher plan types --update --region {file.stem}`, or delete the file",
    )


def own_file() -> Path:
    """Return the path of the user's own prices: $LAUNCHER_PRICES, or prices.csv beside the jobs."""
    return Path(os.environ.get(PRICES_VARIABLE) or home_folder() / "prices.csv").expanduser()


def price_fix(instance_type: str) -> str:
    """Return the fix for an unknown price: how to add it."""
    return (
        f'add the lines "instance_type,price_per_hour" and "{instance_type},DOLLARS" to '
        f"{own_file()}"
    )


def update_fix(region: str | None) -> str:
    """Return the command that reads a region's prices, and what it does."""
    return f"`launcher plan types --update --region {region or 'REGION'}` reads AWS's"


@functools.cache
def _packaged_prices() -> Mapping[tuple[str, str | None], Price]:
    read = (_read(row) for _, row in read_table(packaged_table("prices.csv")))
    return {(price.instance_type, price.region): price for price in read}


def _read(row: Mapping[str, str], file: Path | None = None) -> Price:
    return Price(
        instance_type=row["instance_type"],
        per_hour=float(row["price_per_hour"]),
        region=row.get("region") or None,
        as_of=row.get("as_of") or None,
        file=file,
        source=row.get("source") or None,
        spot=(float(row["spot_low"]), float(row["spot_high"])) if row.get("spot_low") else None,
    )


def _problems(file: Path, number: int, row: Mapping[str, str]) -> Iterator[Problem]:
    where = f"{file}:{number}"
    if missing := [column for column in _COLUMNS if not row.get(column)]:
        yield Problem(
            what=f"a price lacks {' and '.join(missing)}",
            where=where,
            fix="start with the line instance_type,price_per_hour,region and fill the first two "
            "columns of each line; the region may be empty",
        )
    elif not _TYPE.fullmatch(name := row["instance_type"]) and (alike := near(name)):
        yield Problem(
            what=f"{name!r} is not the name of an instance type",
            where=where,
            fix=f"did you mean {alike[0]}?",
        )
    elif not _is_price(row["price_per_hour"]):
        yield Problem(
            what=f"{row['price_per_hour']!r} is not a price per hour",
            where=where,
            fix="write dollars as a number, such as 1.408",
        )
    elif not _is_spot_range(row.get("spot_low", ""), row.get("spot_high", "")):
        yield Problem(
            what=f"{row.get('spot_low')!r} to {row.get('spot_high')!r} is no range of spot prices",
            where=where,
            fix="fill both spot_low and spot_high, the lower first, or neither",
        )
    elif not _is_date(row.get("as_of", "")):
        yield Problem(
            what=f"{row['as_of']!r} is not the date of a price",
            where=where,
            fix="write a day or a month, such as 2026-11, or nothing",
        )


def _is_price(text: str) -> bool:
    try:
        return 0 <= float(text) < float("inf")
    except ValueError:
        return False


def _is_spot_range(low: str, high: str) -> bool:
    if not low and not high:
        return True
    return _is_price(low) and _is_price(high) and float(low) <= float(high)


def _is_date(text: str) -> bool:
    """Return whether a text is a day, a month, a year, or empty."""
    if not text:
        return True
    try:
        date.fromisoformat(f"{text}-01-01"[:10])
    except ValueError:
        return False
    return _DATE.fullmatch(text) is not None


def _unreadable(file: Path, error: Exception) -> Problem:
    return Problem(
        what=f"cannot read your price file: {error}",
        where=str(file),
        fix=f"correct it, or unset {PRICES_VARIABLE}",
    )


def check_regions(given: Iterable[str], where: str) -> None:
    """Raise SpecError for names that are no region of AWS: prices of another would stand for them.

    where: the argument or option that has the names.
    """
    problems = [
        Problem(
            what=f'"{region}" is not a region of AWS',
            where=where,
            fix=f"did you mean {near}?" if near else "write one such as us-east-1",
        )
        for region in given
        if region not in aws_regions()
        for near in (did_you_mean(region.lower(), aws_regions()),)
    ]
    if problems:
        raise SpecError(problems)


@functools.cache
def aws_regions() -> frozenset[str]:
    """Return the regions of all of AWS's partitions."""
    from botocore.loaders import create_loader

    partitions = create_loader().load_data("partitions")["partitions"]
    return frozenset(name for each in partitions for name in each["regions"])
