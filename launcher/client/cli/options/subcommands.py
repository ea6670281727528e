"""Commands of two words: `launcher VERB NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from launcher.client.cli.verb_table import Verb


class CommandWithSubcommands(click.Command):
    """`launcher VERB ARGUMENT`, with subcommands as `launcher VERB NAME ...`."""

    def __init__(self, *arguments: Any, subcommands: Mapping[str, Verb], **more: Any) -> None:
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
        return subcommand.load().make_context(f"{info_name} {args[0]}", args[1:], parent, **more)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the subcommands."""
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (f"{ctx.command_path} {name}", each.line)
                    for name, each in self.subcommands.items()
                ]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the matching subcommands, where no option is in front of them, and options."""
        sources = [ctx.get_parameter_source(each.name) for each in self.params if each.name]
        names = {} if ParameterSource.COMMANDLINE in sources else self.subcommands
        matching = [
            CompletionItem(name, help=each.line)
            for name, each in names.items()
            if name.startswith(incomplete)
        ]
        return [*matching, *super().shell_complete(ctx, incomplete)]
