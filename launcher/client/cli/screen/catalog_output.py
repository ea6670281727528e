"""Output of `launcher plan types`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date

from launcher.client.catalogue import (
    PriceUpdate,
    check_regions,
    count_figures,
    entries,
    entry,
    find,
    near,
    price_fix,
    price_list,
    update_prices,
)
from launcher.client.cli.screen.catalog_table import chosen, figure_lines, plain_entry, type_table
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import print_message
from launcher.client.planning import CatalogueTypeUpdate, update_catalogue_types
from launcher.errors import CloudError, PlatformError


def print_types(
    region: str, output: str, *, gpus: int | None, family: str | None, sort: str
) -> int:
    """Print the instance types with that many accelerators and of that family."""
    check_regions([region], "--region")
    today = date.today()
    found = chosen(entries(price_list(), region), gpus=gpus, family=family, sort=sort)
    if not found:
        raise PlatformError(
            "no instance type of the catalogue is like that; `launcher plan types` has them all"
        )
    count = count_figures(found, today)
    if output == "json":
        types = [plain_entry(each, today) for each in found]
        print_json({"types": types, "known": count.known, "unknown": count.unknown})
        return 0
    echo("\n".join(type_table(found, region, today)))
    priced = sum(each.price is not None for each in found)
    print_message(
        f"\n{len(found)} types; {count.known} figures are known and {count.unknown} unknown; "
        f"{priced} have a price, {len(found) - priced} have none. `launcher plan types TYPE` has "
        "the source of each figure."
    )
    return 0


def print_type(name: str, region: str, output: str) -> int:
    """Print the figures of a type, with their sources."""
    instance = find(name) or find(f"ml.{name}")
    if instance is None:
        nearest = near(name)
        hint = f"did you mean {nearest[0]}?" if nearest else "`launcher plan types` has them all"
        raise PlatformError(f"instance type {name!r} is not in the catalogue; {hint}")
    check_regions([region], "--region")
    today = date.today()
    shown = entry(instance, price_list(), region)
    if output == "json":
        print_json(plain_entry(shown, today))
        return 0
    echo("\n".join(figure_lines(shown, today)))
    count = count_figures([shown], today)
    print_message(f"\n{count.known} figures are known and {count.unknown} unknown.")
    if shown.price is None:
        fix = price_fix(instance.name)
        print_message(f"For a price, run `launcher plan types --update`, or {fix}")
    return 0


def print_update(regions: tuple[str, ...], base_url: str | None, output: str) -> int:
    """Update prices from AWS's price list, and types from EC2, and print what is new."""
    print_message("Reading AWS's price list (hundreds of MB in some regions) ...")
    prices = update_prices(regions, base_url=base_url)
    types, reason = _update_types(regions[0])
    if output == "json":
        regions_json = [{**asdict(each), "file": str(each.file)} for each in prices]
        types_json = {**asdict(types), "file": str(types.file)} if types else None
        print_json({"prices": regions_json, "types": types_json, "no_types_because": reason})
        return 0
    for each in prices:
        _print_prices(each)
    if types:
        new = f", {len(types.new)} of them new ({', '.join(types.new)})" if types.new else ""
        echo(f"{types.count} instance types of {types.region}, from EC2 today{new}")
    else:
        print_message(f"Instance types stay as they are: {reason}")
    return 0


def _print_prices(each: PriceUpdate) -> None:
    count, published = len(each.prices.per_hour), each.prices.published
    echo(f"{count} training prices of {each.region}, published {published}: {each.file}")
    if each.prices.storage is not None:
        echo(f"and of volumes: ${each.prices.storage:g} per GB and month")
    if each.prices.ambiguous:
        print_message(f"Several prices, so none is taken: {', '.join(each.prices.ambiguous)}")
    if each.lost:
        print_message(f"No price any more: {', '.join(each.lost)}")


def _update_types(region: str) -> tuple[CatalogueTypeUpdate | None, str | None]:
    try:
        return update_catalogue_types(region, date.today()), None
    except CloudError as error:
        return None, str(error).splitlines()[0].removeprefix("error: ")
