"""`launcher catalog list`: a table of instance types."""

from __future__ import annotations

from datetime import date

import click

from launcher.client.catalogue import check_regions, count_figures, entries, price_list
from launcher.client.cli.screen.catalog_table import SORT_KEYS, chosen, plain_entry, type_table
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import print_message, with_output_option
from launcher.errors import PlatformError

#: --region of the commands that show prices.
region_option = click.option(
    "--region",
    default="us-east-1",
    show_default=True,
    help="Region of the prices; those of us-east-1 replace unknown ones, and are marked.",
)


@click.command("list")
@click.option("--gpus", type=click.IntRange(min=0), help="Only types with this many accelerators.")
@click.option("--family", help="Only types of this family, for example g5 or c6i.")
@click.option(
    "--sort",
    type=click.Choice(sorted(SORT_KEYS)),
    default="name",
    show_default=True,
    help="Order of the types; those whose figure is unknown are last.",
)
@region_option
@with_output_option
def list_types(gpus: int | None, family: str | None, sort: str, region: str, output: str) -> int:
    """List instance types with their hardware and price."""
    check_regions([region], "--region")
    today = date.today()
    found = chosen(entries(price_list(), region), gpus=gpus, family=family, sort=sort)
    if not found:
        raise PlatformError(
            "no instance type of the catalogue is like that; `launcher catalog list` has them all"
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
        f"{priced} have a price, {len(found) - priced} have none. `launcher catalog show TYPE` has "
        "the source of each figure."
    )
    return 0
