"""Replace the prices of regions by those of AWS's price list, in the user's Launcher home."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.client.catalogue.catalogue_files import read_table, updated_prices
from launcher.client.catalogue.price_download import file_url, open_price_file
from launcher.client.catalogue.price_file import PriceFile, read_price_file
from launcher.client.catalogue.prices import STORAGE
from launcher.client.catalogue.regions import check_regions
from launcher.client.home import writing
from launcher.shared import write_complete

_COLUMNS = ("instance_type", "price_per_hour", "region", "as_of", "source")


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
    with writing(file):
        before = _types_of(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_complete(file, _table(region, prices))
    now = {*prices.per_hour, *([] if prices.storage is None else [STORAGE])}
    lost = tuple(name for name in before if name not in now)
    return PriceUpdate(region=region, prices=prices, file=file, lost=lost)


def _types_of(file: Path) -> tuple[str, ...]:
    if not file.exists():
        return ()
    try:
        rows = list(read_table(file.read_text(encoding="utf-8", errors="replace")))
    except ValueError:  # it is damaged, and replaced
        return ()
    return tuple(row.get("instance_type", "") for _, row in rows)


def _table(region: str, prices: PriceFile) -> str:
    text = io.StringIO()
    text.write(
        "# Written by `launcher plan types --update`; your own prices are in ../../prices.csv.\n"
    )
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    for name, price in prices.per_hour.items():
        table.writerow((name, f"{price:.10g}", region, prices.published, "aws-price-list"))
    if prices.storage is not None:
        row = (STORAGE, f"{prices.storage:.10g}", region, prices.published, "aws-price-list")
        table.writerow(row)
    return text.getvalue()
