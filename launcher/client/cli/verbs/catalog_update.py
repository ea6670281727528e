"""`launcher catalog update`: prices from AWS's price list, instance types from EC2."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date

import click

from launcher.client.catalogue import (
    PRICE_LIST_URL,
    PRICE_LIST_VARIABLE,
    PriceUpdate,
    update_prices,
)
from launcher.client.cli.options.shared_options import removed_option
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import print_message, with_output_option
from launcher.client.planning import CatalogueTypeUpdate, update_catalogue_types
from launcher.errors import CloudError


@click.command("update")
@click.option(
    "--region",
    "regions",
    multiple=True,
    default=("us-east-1",),
    show_default="us-east-1",
    help="Region whose prices are read. Repeatable.",
)
@click.option(
    "--price-list",
    "base_url",
    metavar="URL",
    help=f"Server of the price list, instead of ${PRICE_LIST_VARIABLE} or {PRICE_LIST_URL}.",
)
@removed_option("--format", "leave it out; the price list is read as CSV")
@with_output_option
def update(regions: tuple[str, ...], base_url: str | None, output: str) -> int:
    """Update prices from AWS's public price list, and instance types from EC2.

    The price list needs no credentials; EC2 is asked only where there are some. What was there
    stays until everything new has been read.
    """
    print_message("Reading AWS's price list (hundreds of MB in some regions) ...")
    prices = update_prices(regions, base_url=base_url)
    types, reason = _types(regions[0])
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


def _types(region: str) -> tuple[CatalogueTypeUpdate | None, str | None]:
    try:
        return update_catalogue_types(region, date.today()), None
    except CloudError as error:
        return None, str(error).splitlines()[0].removeprefix("error: ")
