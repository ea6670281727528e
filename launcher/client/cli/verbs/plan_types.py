"""`launcher plan types`: the instance types of SageMaker training, with dated prices."""

from __future__ import annotations

import click

from launcher.client import catalogue
from launcher.client.catalogue import PRICE_LIST_URL, PRICE_LIST_VARIABLE
from launcher.client.cli.options.shared_options import removed_option
from launcher.client.cli.screen.catalog_output import (
    SORT_KEYS,
    print_type,
    print_types,
    print_update,
)
from launcher.client.cli.screen.verb_output import with_output_option


@click.command("types")
@click.argument(
    "name",
    metavar="[TYPE]",
    required=False,
    shell_complete=lambda _c, _p, typed: [
        name for name in catalogue.instance_types() if name.startswith(typed)
    ],
)
@click.option("--gpus", type=click.IntRange(min=0), help="Only types with this many accelerators.")
@click.option("--family", help="Only types of this family, for example g5 or c6i.")
@click.option(
    "--sort",
    type=click.Choice(sorted(SORT_KEYS)),
    help="Order of the types [default: name]; those whose figure is unknown are last.",
)
@click.option(
    "--region",
    "regions",
    multiple=True,
    default=("us-east-1",),
    help="Region of the prices [default: us-east-1], whose prices replace unknown ones, marked. "
    "Repeatable with --update.",
)
@click.option("--update", is_flag=True, help="Update the prices and types kept on this machine.")
@click.option(
    "--price-list",
    "base_url",
    metavar="URL",
    help="With --update: server of the price list, instead of "
    f"${PRICE_LIST_VARIABLE} or {PRICE_LIST_URL}.",
)
@removed_option("--format", "leave it out; the price list is read as CSV")
@with_output_option
def types(
    name: str | None,
    *,
    gpus: int | None,
    family: str | None,
    sort: str | None,
    regions: tuple[str, ...],
    update: bool,
    base_url: str | None,
    output: str,
) -> int:
    """Show instance types with their figures and dated prices.

    All of them with their hardware and price, or the figures of TYPE, each with its source and
    date. A figure that no public source gives is unknown, never a guess. GiB EACH is the memory of
    one accelerator, Gbit/s what all network cards together sustain. A price is called old after
    three months. --update reads AWS's public price list, which needs no credentials, and asks EC2
    for types where there are some. What was there stays until everything new has been read.
    """
    if (update or name) and ((update and name) or gpus is not None or family or sort):
        raise click.UsageError("give TYPE, --update, or --gpus, --family and --sort")
    if not update and (base_url or len(regions) > 1):
        raise click.UsageError("--price-list, and more than one --region, go with --update")
    if update:
        return print_update(regions, base_url, output)
    if name:
        return print_type(name, regions[0], output)
    return print_types(regions[0], output, gpus=gpus, family=family, sort=sort or "name")
