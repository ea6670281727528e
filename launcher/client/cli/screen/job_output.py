"""A job on the terminal: followed until it ends or the user detaches, then its summary."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from launcher.client.cli.screen.ctrl_c import Detached, detach_on_ctrl_c, print_detached
from launcher.client.cli.screen.live_view import JobView
from launcher.client.cli.screen.verb_output import (
    echo,
    print_json,
    print_message,
    print_warnings,
)
from launcher.client.jobs import Job, job_record_text, summary_text, with_resume_hint
from launcher.client.sessions import TERMINAL_STATUSES, local_session
from launcher.client.show import NOTE_COLUMN
from launcher.errors import CloudError, JobStopped

if TYPE_CHECKING:
    from launcher.client.sessions import WaitingRank
    from launcher.shared import TrainingJobDescription


def print_started(job: Job, now: TrainingJobDescription) -> None:
    """Print where a described job runs, and the differences of that platform from AWS."""
    where, *notes = job.session.place_notes(now)
    print_message(f"Job {job.name} runs {where}")
    for note in notes:
        print_message(f"note: {note}")


def follow(job: Job, *, verbose: bool) -> bool:
    """Show a job on stderr until it ends; return False if the user detached with Ctrl-C.

    Raises JobStopped for a user who stopped the job and left before its end.
    """
    try:
        with ExitStack() as views, detach_on_ctrl_c(job, views.close):
            now = job.description(print_notice)
            print_started(job, now)
            view = views.enter_context(JobView(job, now, verbose=verbose))
            job.wait(
                view.show_line,
                view.show_state,
                view.show_notice,
                polls=view.show_description,
            )
    except Detached as left:
        if left.is_stopping:
            raise JobStopped(job.name, "Stopping") from None
        return False
    return True


class _RankWaits(Exception):
    """The rank of a job of `launcher run --debug` waits for a terminal."""

    def __init__(self, rank: WaitingRank) -> None:
        super().__init__()
        self.rank = rank


def run_in_terminal(job: Job) -> int | None:
    """Run the one rank of a job in this terminal; return its exit code when the job has ended.

    None if the job has ended before. A user who does not wait for it stops the job.
    """
    try:
        rank = _awaited_rank(job)
        code = None if rank is None else rank.run()
        job.wait(notices=print_notice)
    except KeyboardInterrupt:
        job.stop()
        raise
    return code


def _awaited_rank(job: Job) -> WaitingRank | None:
    """Show a job until its rank waits for a terminal, and return that; None at the job's end."""
    here = local_session()
    now = job.description(print_notice)
    print_started(job, now)

    def poll(described: TrainingJobDescription) -> None:
        view.show_description(described)
        if (rank := here.waiting_rank(job.name)) is not None:
            raise _RankWaits(rank)

    try:
        with JobView(job, now) as view:
            job.wait(view.show_line, view.show_state, view.show_notice, polls=poll)
    except _RankWaits as found:
        return found.rank
    return None


def watch(first: Job) -> Job | None:
    """Show the state of a job, and of its restarts, on stderr; return the last one after its end.

    Nothing of what its programs print is shown. None if the user left with Ctrl-C.
    """
    job = first
    try:
        for job in first.attempts(print_notice):
            with with_resume_hint(job.name):
                _watch(job, job.description(print_notice))
    except KeyboardInterrupt:
        print_detached(job.name)
        return None
    return job


def _watch(job: Job, now: TrainingJobDescription) -> None:
    if now["TrainingJobStatus"] not in TERMINAL_STATUSES:
        with JobView(job, now, is_quiet=True) as view:
            job.wait(view.show_line, view.show_state, view.show_notice, polls=view.show_description)


def follow_unless_left(job: Job, is_left: bool, *, verbose: bool) -> bool:
    """Follow a job that the user has not left yet; return whether they have left it now."""
    if is_left:
        try:
            print_started(job, job.description())
        except CloudError as error:  # it was created all the same
            print_warnings([f"where job {job.name} runs is not known: {error.headline}"])
        print_detached(job.name)
        return True
    with with_resume_hint(job.name):
        return not follow(job, verbose=verbose)


def print_notice(notice: str) -> None:
    """Print a notice that the job is idle or that the platform does not respond."""
    print_message(f"({notice})")


def print_summary(summary: Mapping[str, object], output: str, *, is_followed: bool = False) -> None:
    """Print a job's summary as the answer of a verb, in the form that `-o` selects.

    is_followed: the user has just seen what the job's hosts printed.
    """
    if output == "json":
        print_json(summary)
        return
    text = summary_text(summary, is_followed=is_followed, style=click.style)
    echo(text, note_column=NOTE_COLUMN)


def print_record(record: Mapping[str, object] | None) -> None:
    """Print how a job was made, below its summary."""
    echo(job_record_text(record), note_column=NOTE_COLUMN)
