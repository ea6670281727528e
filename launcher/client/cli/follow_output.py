"""Follow a job on the terminal, until it ends or the user detaches."""

from __future__ import annotations

from launcher.client.cli.ctrl_c import Detached, detach_on_ctrl_c, print_detached
from launcher.client.cli.live_view import JobView
from launcher.client.cli.verb_output import print_message
from launcher.client.jobs.job import Job
from launcher.client.jobs.retrying_session import with_resume_hint


def print_started(job: Job) -> None:
    """Print where a job runs, and the differences of that platform from AWS."""
    where, *notes = job.session.place_notes(job.description())
    print_message(f"Job {job.name} runs {where}")
    for note in notes:
        print_message(f"note: {note}")


def follow(job: Job, *, verbose: bool) -> bool:
    """Show a job on stderr until it ends; return False if the user detached with Ctrl-C."""
    try:
        with JobView(job, verbose=verbose) as view, detach_on_ctrl_c(job, view.close):
            job.wait(
                view.show_line,
                view.show_state,
                view.show_notice,
                polls=view.show_description,
            )
    except Detached:
        return False
    return True


def follow_unless_left(job: Job, is_left: bool, *, verbose: bool) -> bool:
    """Follow a job that the user has not left yet; return whether they have left it now."""
    if is_left:
        print_detached(job.name)
        return True
    with with_resume_hint(job.name):
        return not follow(job, verbose=verbose)


def print_notice(notice: str) -> None:
    """Print a notice that the job is idle or that the platform does not respond."""
    print_message(f"({notice})")
