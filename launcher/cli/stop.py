"""launcher stop: ask a job to end."""

from __future__ import annotations

import click

from launcher.cli import candidates
from launcher.cli.answer import answers, print_json, tell
from launcher.job import Job
from launcher.sessions.base import TERMINAL_STATUSES
from launcher.sessions.local import LocalSession


@click.command()
@click.argument("name", shell_complete=candidates.jobs)
@answers
def stop(name: str, output: str) -> int:
    """Ask job NAME to stop.

    Its hosts get 120 seconds to save their work.
    """
    job = Job(name, LocalSession())
    before = job.status
    if before in TERMINAL_STATUSES:
        tell(f"Job {name} has ended already: {before}.")
    else:
        job.stop()
        tell(f"Job {name} is stopping; `launcher status {name}` says when it has.")
    if output == "json":
        print_json({"name": name, "status": job.status})
    return 0
