"""`launcher catalog`: the instance types of SageMaker training, with dated prices."""

from __future__ import annotations

import click

from launcher.client.cli.options.subcommands import CommandGroup
from launcher.client.cli.verbs.catalog_list import list_types
from launcher.client.cli.verbs.catalog_show import show_type
from launcher.client.cli.verbs.catalog_update import update


@click.group(cls=CommandGroup)
def catalog() -> None:
    """Show instance types with their figures and dated prices.

    Each figure has a source and a date, and is left out where no public source gives it.
    """


for command in (list_types, show_type, update):
    catalog.add_command(command)
