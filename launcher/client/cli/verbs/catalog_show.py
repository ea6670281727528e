"""`launcher catalog show`: all figures of one instance type, with their sources."""

from __future__ import annotations

from datetime import date

import click

from launcher.client import catalogue
from launcher.client.catalogue import check_regions, count_figures, entry, price_fix, price_list
from launcher.client.cli.screen.catalog_table import figure_lines, plain_entry
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import print_message, with_output_option
from launcher.client.cli.verbs.catalog_list import region_option
from launcher.errors import PlatformError


@click.command("show")
@click.argument(
    "name",
    metavar="TYPE",
    shell_complete=lambda _c, _p, typed: [
        name for name in catalogue.instance_types() if name.startswith(typed)
    ],
)
@region_option
@with_output_option
def show_type(name: str, region: str, output: str) -> int:
    """Show the figures of TYPE, each with its source and date."""
    instance = catalogue.find(name) or catalogue.find(f"ml.{name}")
    if instance is None:
        near = catalogue.near(name)
        hint = f"did you mean {near[0]}?" if near else "`launcher catalog list` has them all"
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
        print_message(f"For a price, run `launcher catalog update`, or {price_fix(instance.name)}")
    return 0
