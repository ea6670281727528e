"""Commands of two words: `launcher VERB NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class CommandWithSubcommands(click.Command):
    """`launcher VERB ARGUMENT`, with subcommands as `launcher VERB NAME ...`."""

    def __init__(
        self, *arguments: Any, subcommands: Mapping[str, click.Command], **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.subcommands = subcommands

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **more: object,
    ) -> click.Context:
        """Create the context of the subcommand named first, or else of this command."""
        subcommand = self.subcommands.get(args[0]) if args else None
        if subcommand is None:
            return super().make_context(info_name, args, parent, **more)
        return subcommand.make_context(f"{info_name} {args[0]}", args[1:], parent, **more)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the subcommands."""
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            lines = {
                name: subcommand.get_short_help_str(100)
                for name, subcommand in self.subcommands.items()
            }
            formatter.write_dl([(f"{ctx.command_path} {n}", line) for n, line in lines.items()])


class CommandGroup(click.Group):
    """A verb that has only subcommands: `launcher VERB NAME ...`."""

    @property
    def subcommands(self) -> Mapping[str, click.Command]:
        """The commands by name, as those of CommandWithSubcommands."""
        return self.commands
