"""Replace the prices of regions by those of AWS's price list, in the user's Launcher home.

The list has a file of CSV for each region, which is read in bounded memory. Its format:
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/bulk-api-reading-price-list-files.html
The usage type has the instance type: "USE1-Train:ml.c5.xlarge" ("Train:ml..." in some regions). The
column "Instance Type" is empty in most lines, so it is not read.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TextIO

from launcher.client.catalogue.catalogue_files import updated_prices
from launcher.client.catalogue.price_download import file_url, open_price_file
from launcher.client.catalogue.prices import STORAGE, Price, check_regions, read_updated
from launcher.client.home import writing
from launcher.errors import CloudError, SpecError
from launcher.shared import write_complete

_OWN_COLUMNS = ("instance_type", "price_per_hour", "region", "as_of", "source")


#: Volumes of training hosts: "USE1-Train:VolumeUsage.gp2".
_STORAGE = re.compile(r"(?:[A-Z0-9]+-)?Train:VolumeUsage(\.[a-z0-9]+)?")
_TRAINING = re.compile(r"(?:[A-Z0-9]+-)?Train:(?P<type>ml\.[a-z0-9-]+\.[a-z0-9]+)")
#: Lines before the header, which start with the names of these facts.
_PREAMBLE_LINES = 5
_PUBLISHED = "Publication Date"
#: Columns that are read, without spaces and in small letters: AWS has changed both.
_COLUMNS = (
    "termtype",
    "unit",
    "priceperunit",
    "currency",
    "usagetype",
    "startingrange",
    "regioncode",
)


@dataclass(frozen=True, kw_only=True)
class PriceUpdate:
    """The prices of one region after an update.

    file: where they are. lost: types that had a price before, and have none now.
    """

    region: str
    prices: PriceFile
    file: Path
    lost: tuple[str, ...]


def update_prices(
    regions: Iterable[str], *, base_url: str | None = None
) -> tuple[PriceUpdate, ...]:
    """Read the price list of each region, then replace the old prices of all of them.

    Nothing is replaced if one region cannot be read completely. Raises SpecError for a name that is
    no region, CloudError for a file that cannot be had or is not in AWS's format, and PlatformError
    for a folder that is not writable.
    """
    wanted = tuple(dict.fromkeys(regions))
    check_regions(wanted, "--region")
    found = {}
    for region in wanted:
        with open_price_file(file_url(region, base_url)) as file:
            found[region] = read_price_file(file, region)
    return tuple(_store(region, prices) for region, prices in found.items())


def _store(region: str, prices: PriceFile) -> PriceUpdate:
    file = updated_prices(region)
    listed = {**prices.per_hour, **({} if prices.storage is None else {STORAGE: prices.storage})}
    new = [
        Price(
            instance_type=name,
            per_hour=per_hour,
            region=region,
            as_of=prices.published,
            source="aws-price-list",
        )
        for name, per_hour in listed.items()
    ]
    with writing(file):
        kept = _kept(file)
        earlier = [each for each in kept if each.as_of != prices.published]
        file.parent.mkdir(parents=True, exist_ok=True)
        write_complete(file, _table([*earlier, *new]))
    last = max((each.as_of or "" for each in kept), default=None)
    before = [each.instance_type for each in kept if each.as_of == last]
    lost = tuple(name for name in before if name not in listed)
    return PriceUpdate(region=region, prices=prices, file=file, lost=lost)


def _kept(file: Path) -> list[Price]:
    """Return the prices of earlier updates, which bills of that time need."""
    try:
        return read_updated(file) if file.exists() else []
    except SpecError:  # it is damaged, and replaced
        return []


def _table(prices: Iterable[Price]) -> str:
    text = io.StringIO()
    text.write(
        "# Written by `launcher plan types --update`; your own prices are in ../../prices.csv.\n"
        "# Bills of jobs of earlier months have the prices of their time.\n"
    )
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_OWN_COLUMNS)
    for each in prices:
        cost = f"{each.per_hour:.10g}"
        table.writerow((each.instance_type, cost, each.region, each.as_of, each.source))
    return text.getvalue()


@dataclass(frozen=True, kw_only=True)
class PriceFile:
    """The training prices of one file.

    published: AWS's date of the file, YYYY-MM-DD. per_hour: USD per instance type, on demand.
    ambiguous: types with several different prices, of which none is taken.
    storage: USD per GB and month of the dearest kind of volume; None if the file has none.
    """

    published: str
    per_hour: Mapping[str, float]
    ambiguous: tuple[str, ...]
    storage: float | None = None


@dataclass(frozen=True, kw_only=True)
class _Offer:
    """One price of the file, as its texts."""

    usage_type: str
    unit: str
    currency: str
    price: str
    starting_range: str
    region: str


def read_price_file(file: TextIO, region: str) -> PriceFile:
    """Read a file of the price list; raises CloudError if it is no complete price list."""
    try:
        return _read(file, region)
    except csv.Error as error:
        raise _bad_file(f"the price list is not CSV: {error}") from error


def _read(file: TextIO, region: str) -> PriceFile:
    preamble = dict(
        [*row, "", ""][:2] for row in itertools.islice(csv.reader(file), _PREAMBLE_LINES)
    )
    published = _date(preamble.get(_PUBLISHED))
    rows = csv.reader(file)
    header = ["".join(name.split()).lower() for name in next(rows, [])]
    if missing := [name for name in _COLUMNS if name not in header]:
        raise _bad_file(
            f"the price list has no column {', '.join(missing)}; AWS may have renamed it"
        )
    return _prices(_offers(rows, header), region, published)


def _offers(rows: Iterator[list[str]], header: list[str]) -> Iterator[_Offer]:
    places = {name: header.index(name) for name in _COLUMNS}
    for number, row in enumerate(rows, start=_PREAMBLE_LINES + 2):
        if len(row) != len(header):
            raise _bad_file(
                f"line {number} of the price list has {len(row)} of {len(header)} columns: "
                "the file is not complete"
            )
        cell = {name: row[place] for name, place in places.items()}
        if cell["termtype"] == "OnDemand":
            yield _Offer(
                usage_type=cell["usagetype"],
                unit=cell["unit"],
                currency=cell["currency"],
                price=cell["priceperunit"],
                starting_range=cell["startingrange"],
                region=cell["regioncode"],
            )


def _prices(offers: Iterable[_Offer], region: str, published: str) -> PriceFile:
    """Return the price of each type; the first tier counts, and two prices make it ambiguous."""
    found: dict[str, set[float]] = defaultdict(set)
    storage: list[float] = []
    for offer in offers:
        if _STORAGE.fullmatch(offer.usage_type) and _is_price(offer, region, ("gb-mo", "gb-month")):
            storage.append(_dollars(offer))
        training = _TRAINING.fullmatch(offer.usage_type)
        if training and _is_price(offer, region, ("hrs", "hours", "hour")):
            found[training["type"]].add(_dollars(offer))
    per_hour = {name: min(prices) for name, prices in sorted(found.items()) if len(prices) == 1}
    if not per_hour:
        raise _bad_file(f"the price list has no training prices in USD per hour for {region}")
    ambiguous = tuple(sorted(name for name, prices in found.items() if len(prices) > 1))
    return PriceFile(
        published=published,
        per_hour=per_hour,
        ambiguous=ambiguous,
        storage=max(storage, default=None),
    )


def _is_price(offer: _Offer, region: str, units: tuple[str, ...]) -> bool:
    return (
        offer.unit.lower() in units
        and offer.currency == "USD"
        and offer.region in ("", region)
        and _number(offer, offer.starting_range or "0") == 0
        and _dollars(offer) > 0  # 0 is the price of a free tier
    )


def _dollars(offer: _Offer) -> float:
    return _number(offer, offer.price)


def _number(offer: _Offer, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _bad_file(f"{offer.usage_type}: {text!r} is not a number")
    return number


def _date(published: str | None) -> str:
    """Return the day of "2026-11-20T17:11:05Z"."""
    day = (published or "").partition("T")[0]
    try:
        return date.fromisoformat(day).isoformat()
    except ValueError:
        raise _bad_file(f"the price list has no publication date ({published!r})") from None


def _bad_file(what: str) -> CloudError:
    return CloudError(f"{what}\n  fix: try again later; the prices that are there stay")
