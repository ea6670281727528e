"""Following a job on the terminal: its states and its hosts' lines, each with group and host."""

from __future__ import annotations

import click

from launcher.cli.answer import group_prefix, tell
from launcher.contract import format_event, parse_event
from launcher.job import Job, LogLine
from launcher.outcome import host_groups


class LinePrinter:
    """Writes log lines behind "group/host |", one colour per group."""

    def __init__(self, job: Job, *, to_stderr: bool) -> None:
        groups = host_groups(job.description())
        self._groups = [group.name for group in groups]
        self._width = max(len(f"{group.name}/{host}") for group in groups for host in group.hosts)
        self._to_stderr = to_stderr

    def __call__(self, line: LogLine) -> None:
        prefix = group_prefix(line.group, line.host, self._groups, self._width)
        click.echo(f"{prefix} {_readable(line.text)}", err=self._to_stderr)


def _readable(text: str) -> str:
    """Launcher's own lines are dimmed (the user's stand out) and do not repeat the prefix."""
    event = parse_event(text)
    if event is None:
        return text
    name, fields = event
    shown = {key: value for key, value in fields.items() if key not in ("host", "group")}
    return click.style(format_event(name, **shown), dim=True)


def follow(job: Job) -> bool:
    """Show a job on stderr until it ends; False when the user left it with Ctrl-C."""
    try:
        job.wait(logs=LinePrinter(job, to_stderr=True), states=lambda word: tell(f"[{word}]"))
    except KeyboardInterrupt:
        tell_detached(job.name)
        return False
    return True


def tell_detached(name: str) -> None:
    """Say that the job goes on, and how to come back to it."""
    tell(
        f"\nDetached; job {name} goes on.\n"
        f"  launcher logs -f {name}     come back\n"
        f"  launcher status {name}      how it stands\n"
        f"  launcher stop {name}        end it"
    )
