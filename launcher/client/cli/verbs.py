"""The table of verbs; only the one in use is imported, so that completion is fast."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Location and summary of a verb.

    home: "module:function" in this package; line: the first line of its help, which a shell
    shows beside the verb without importing it (a test keeps the two equal).
    """

    home: str
    line: str

    def load(self) -> click.Command:
        """Import the verb and return its command."""
        module, _, function = self.home.partition(":")
        command: click.Command = getattr(import_module(f"launcher.client.cli.{module}"), function)
        return command


#: In the order of a job's life.
VERBS = {
    "init": Verb(home="init:init", line="Write a first job, ready to run."),
    "check": Verb(home="check:check", line="Report what works here and what does not."),
    "config": Verb(
        home="config:config", line="Show the defaults of jobs for AWS, and where each comes from."
    ),
    "partition": Verb(
        home="partition:partition", line="Find the best pipeline cuts for a task's model."
    ),
    "run": Verb(home="run:run", line="Run a job and follow it to its end."),
    "list": Verb(home="list:list_jobs", line="List jobs, newest first."),
    "status": Verb(home="status:status", line="Show the progress or outcome of job NAME."),
    "logs": Verb(home="logs:logs", line="Print the logs of job NAME."),
    "download": Verb(home="download:download", line="Download the model and output of job NAME."),
    "stop": Verb(home="stop:stop", line="Stop job NAME."),
    "interrupt": Verb(home="interrupt:interrupt", line="Reclaim the spot instances of job NAME."),
    "probe": Verb(home="probe:probe", line="Measure what a platform's documentation leaves open."),
    "endpoint": Verb(home="endpoint:endpoint", line="Serve SageMaker's API on this machine."),
    "completion": Verb(
        home="completion:completion", line="Print the script that lets SHELL complete launcher."
    ),
}


class Verbs(click.Group):
    """A group of commands that are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs, in the order of a job's life."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a verb's command; None if there is no such verb."""
        verb = VERBS.get(cmd_name)
        return verb.load() if verb else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a verb; for an unknown one, fail and suggest the nearest."""
        name = args[0]
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return matching verbs with their summaries, without importing them."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [
            CompletionItem(name, help=verb.line)
            for name, verb in VERBS.items()
            if name.startswith(incomplete)
        ]
