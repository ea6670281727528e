"""`launcher VERB` and `launcher VERB NAME`: only the command in use is imported.

Its words are kept for a job's record, without the values of environment variables.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from launcher.client.cli.verb_table import FORMER_VERBS, VERB_GROUPS, VERBS, Verb
from launcher.shared import FROM_ENVIRONMENT, SECRET_ARN


class Verbs(click.Group):
    """A group of commands that are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs, group by group."""
        return list(VERBS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs with their summaries, and those of two words, by what they are for."""
        for group, verbs in VERB_GROUPS.items():
            rows = []
            for name, verb in verbs.items():
                rows.append((name, verb.line))
                rows += [(f"{name} {word}", each.line) for word, each in verb.subcommands.items()]
            with formatter.section(group):
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a verb's command; None if there is no such verb."""
        verb = VERBS.get(cmd_name)
        return verb.load() if verb else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a verb; for an unknown one, fail and suggest the nearest."""
        name = args[0]
        keep_command_line(ctx, args)
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            from launcher.shared import did_you_mean

            if name in FORMER_VERBS:
                ctx.fail(f"{name!r} is no longer a command: {FORMER_VERBS[name]}.")
            near = did_you_mean(name, VERBS)
            hint = f" Did you mean {near!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; end as by SIGPIPE if its reader, such as `head`, has gone."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            import signal  # the start of each verb would wait for it

            _discard_stdout()  # what is left of it would be an error at the interpreter's end
            ctx.exit(128 + signal.SIGPIPE)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return matching verbs with their summaries, without importing them."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=verb.line)
            for name, verb in VERBS.items()
            if name.startswith(incomplete)
        ]


def open_streams() -> None:
    """Open an empty stdin, and outputs that discard everything, where the shell has closed them.

    It does so with `<&-`, `>&-` and `2>&-`. What the encoding of an open stdout lacks is escaped,
    as Python does on stderr.
    """
    if sys.stdin is None:  # the first of the three, as each gets the lowest free descriptor
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(_open_nothing(), "w", encoding="utf-8")
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stderr is None:
        sys.stderr = os.fdopen(_open_nothing(), "w", encoding="utf-8")


def _discard_stdout() -> None:
    nothing = _open_nothing()
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def _open_nothing() -> int:
    return os.open(os.devnull, os.O_WRONLY)  # a tenth of the start goes without pathlib


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


_HIDDEN = "***"
#: Options whose value may hold that of a variable.
_CHANGES = ("--env", "--set", "--secret")


def keep_command_line(context: click.Context, words: Sequence[str]) -> None:
    """Keep the words behind "launcher" for the verb that they name."""
    context.meta[__name__] = ("launcher", *_without_secrets(words))


def command_line() -> tuple[str, ...]:
    """Return the words of the command, with "***" for the value of each environment variable."""
    words: tuple[str, ...] = click.get_current_context().meta.get(__name__, ())
    return words


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    option = ""
    for word in words:
        name, sign, value = word.partition("=")
        if option in _CHANGES:
            yield _hidden(option, word)
        elif sign and name in _CHANGES:
            yield f"{name}={_hidden(name, value)}"
        else:
            yield word
        option = "" if option in _CHANGES else word


def _hidden(option: str, change: str) -> str:
    """Return NAME=VALUE or PATH=VALUE without the value of a variable."""
    path, sign, source = change.partition("=")
    names = path.strip().split(".")
    is_variable = option == "--env" or names[0] == "environment" or "Environment" in names
    if option == "--secret" or names[0] == "secrets":
        is_variable = not SECRET_ARN.fullmatch(source) and source != FROM_ENVIRONMENT
    is_variable = is_variable or path.strip() == "extra_request"
    return f"{path}{sign}{_HIDDEN}" if is_variable and sign else change
