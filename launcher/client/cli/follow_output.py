"""Follow a job on the terminal: its states, and its hosts' lines with group and host in front."""

from __future__ import annotations

import click

from launcher.client.cli.ctrl_c import Detached, detach_on_ctrl_c, print_detached
from launcher.client.cli.verb_output import print_message
from launcher.client.jobs.follow import StateChange
from launcher.client.jobs.group_hosts import host_groups
from launcher.client.jobs.job import Job
from launcher.client.jobs.log_line import LogLine
from launcher.client.jobs.retrying_session import with_resume_hint

#: One colour per group, in group order.
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue")


class LinePrinter:
    """Printer of log lines behind "group/host |", one colour per group."""

    def __init__(self, job: Job, *, to_stderr: bool) -> None:
        groups = host_groups(job.description())
        self._groups = [group.name for group in groups]
        prefixes = [f"{group.name}/{host}" for group in groups for host in group.hosts]
        self._width = max(map(len, prefixes), default=0)  # a serverless job has no known hosts
        self._to_stderr = to_stderr

    def __call__(self, line: LogLine) -> None:
        """Print one line."""
        prefix = self._prefix(line.group, line.host)
        click.echo(f"{prefix} {_styled(line)}", err=self._to_stderr)

    def _prefix(self, group: str, host: str) -> str:
        """Return "data_group/algo-1  |" in the group's colour, the name padded."""
        is_known = group in self._groups
        colour = _COLOURS[self._groups.index(group) % len(_COLOURS)] if is_known else None
        return click.style(f"{group}/{host}".ljust(self._width) + " |", fg=colour)


def _styled(line: LogLine) -> str:
    """Return a line's text; Launcher's own are dim, so that the user's and notices stand out."""
    if line.is_notice:
        return click.style(line.readable, fg="yellow")
    return click.style(line.readable, dim=True) if line.is_event else line.text


def print_started(job: Job) -> None:
    """Print where a job runs, and the differences of that platform from AWS."""
    where, *notes = job.session.place_notes(job.description())
    print_message(f"Job {job.name} runs {where}")
    for note in notes:
        print_message(f"note: {note}")


def follow(job: Job) -> bool:
    """Show a job on stderr until it ends; return False if the user detached with Ctrl-C."""
    try:
        with detach_on_ctrl_c(job):
            job.wait(LinePrinter(job, to_stderr=True), _print_state, print_notice)
    except Detached:
        return False
    return True


def follow_unless_left(job: Job, is_left: bool) -> bool:
    """Follow a job that the user has not left yet; return whether they have left it now."""
    if is_left:
        print_detached(job.name)
        return True
    with with_resume_hint(job.name):
        return not follow(job)


def print_notice(notice: str) -> None:
    """Print a notice that the job is idle or that the platform does not respond."""
    print_message(f"({notice})")


def _print_state(state: StateChange) -> None:
    print_message(str(state))
