"""What an instance costs per hour: the dated prices.csv, and before it a file of the user's own."""

from __future__ import annotations

import functools
import importlib.resources
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.catalogue.table import read_table
from launcher.errors import Problem, SpecError

#: Names the user's own file; without it, prices.csv in the folder of Launcher's jobs is read.
PRICES_VARIABLE = "LAUNCHER_PRICES"
_COLUMNS = ("instance_type", "price_per_hour")


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one instance costs per hour, in USD, on demand and without storage.

    region: where that holds; None: everywhere. as_of: the month of the price, "2026-11"; None when
    it is not known. file: the user's own file that says so; None for Launcher's.
    """

    instance_type: str
    per_hour: float
    region: str | None = None
    as_of: str | None = None
    file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """Launcher's prices, and the user's own, which win."""

    own: Mapping[tuple[str, str | None], Price] = field(default_factory=dict)

    def find(self, instance_type: str, region: str | None) -> Price | None:
        """The price of a type, or None when nobody knows it.

        Launcher has the prices of one region; for another they are what comes nearest, and
        `Price.region` tells.
        """
        return (
            self.own.get((instance_type, region))
            or self.own.get((instance_type, None))
            or _shipped().get(instance_type)
        )


def price_list() -> PriceList:
    """Launcher's prices with the user's own; SpecError has every bad line of their file."""
    file = own_file()
    if not os.environ.get(PRICES_VARIABLE) and not file.exists():
        return PriceList()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SpecError([_unreadable(file, error)]) from error
    rows = list(read_table(text))
    if problems := [problem for number, row in rows for problem in _problems(file, number, row)]:
        raise SpecError(problems)
    prices = [_read(row, file) for _, row in rows]
    return PriceList(own={(price.instance_type, price.region): price for price in prices})


def own_file() -> Path:
    """Where the user's own prices are, if they have any: $LAUNCHER_PRICES, or beside the jobs."""
    home = os.environ.get("LAUNCHER_HOME") or "~/.launcher"
    return Path(os.environ.get(PRICES_VARIABLE) or f"{home}/prices.csv").expanduser()


def bring_a_price(instance_type: str) -> str:
    """How a user says what an instance type costs."""
    return (
        f'write the lines "instance_type,price_per_hour" and "{instance_type},DOLLARS" to '
        f"{own_file()}"
    )


@functools.cache
def _shipped() -> Mapping[str, Price]:
    file = importlib.resources.files("launcher.catalogue") / "prices.csv"
    prices = (_read(row) for _, row in read_table(file.read_text(encoding="utf-8")))
    return {price.instance_type: price for price in prices}


def _read(row: Mapping[str, str], file: Path | None = None) -> Price:
    return Price(
        instance_type=row["instance_type"],
        per_hour=float(row["price_per_hour"]),
        region=row.get("region") or None,
        as_of=row.get("as_of") or None,
        file=file,
    )


def _problems(file: Path, number: int, row: Mapping[str, str]) -> Iterator[Problem]:
    where = f"{file}:{number}"
    if missing := [column for column in _COLUMNS if not row.get(column)]:
        yield Problem(
            what=f"a price has no {' and no '.join(missing)}",
            where=where,
            fix="write a first line instance_type,price_per_hour,region and a value for the first "
            "two in each line; the region may be left empty",
        )
    elif not _is_price(row["price_per_hour"]):
        yield Problem(
            what=f"{row['price_per_hour']!r} is not a price per hour",
            where=where,
            fix="write dollars as a number, such as 1.408",
        )


def _is_price(text: str) -> bool:
    try:
        return 0 <= float(text) < float("inf")
    except ValueError:
        return False


def _unreadable(file: Path, error: Exception) -> Problem:
    return Problem(
        what=f"your file of prices cannot be read: {error}",
        where=str(file),
        fix=f"mend it, or unset {PRICES_VARIABLE}",
    )
