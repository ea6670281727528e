"""From a job that may be sent to its end: sent, followed, and told."""

from __future__ import annotations

import click

from launcher.cli.answer import print_json
from launcher.cli.ctrl_c import hold_ctrl_c, tell_detached
from launcher.cli.follow import follow, tell_started
from launcher.cli.screen import summary_screen
from launcher.job import Job
from launcher.request.submission import Submission
from launcher.sessions.submission import send


def send_and_follow(submission: Submission, job: Job, detach: bool, output: str) -> int:
    """Send a job, follow it, and answer; the exit code."""
    with hold_ctrl_c() as is_pressed:
        send(submission, job.session)
        tell_started(job)
    if detach := detach or is_pressed():
        tell_detached(job.name)
    finished = not detach and follow(job)
    summary = job.summary()
    if output == "json":
        print_json(summary)
    else:
        click.echo(summary_screen(summary) if finished else job.name)
    return summary["exit_code"] if finished else 0
