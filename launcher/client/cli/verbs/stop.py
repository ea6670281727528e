"""`launcher stop`: stop jobs, or all jobs, or reclaim spot instances."""

from __future__ import annotations

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.session_options import session_of_local_job, session_option
from launcher.client.cli.screen.verb_output import (
    act_on_each,
    confirm_each,
    print_json,
    print_message,
    with_output_option,
    yes_option,
)
from launcher.client.jobs import EXIT_CODES, Job
from launcher.client.sessions import is_from_here, open_session, require_own, session_of


@click.command()
@click.argument("names", nargs=-1, shell_complete=completion_values.jobs)
@click.option("--all", "is_all", is_flag=True, help="Stop all jobs of this machine that run.")
@click.option("--any", "is_any", is_flag=True, help="Also jobs that this machine did not send.")
@click.option("--spot", is_flag=True, help="Only reclaim a local job's spot instances.")
@yes_option("Stop several jobs without asking.")
@session_option
@with_output_option
def stop(
    names: tuple[str, ...],
    *,
    is_all: bool,
    is_any: bool,
    spot: bool,
    yes: bool,
    session: str | None,
    output: str,
) -> int:
    """Stop jobs NAMES, or all jobs.

    Their hosts get 120 seconds to save their work. Jobs are named in full. --all leaves the jobs of
    other sessions alone, unless --session or --cloud names one. Several jobs are stopped only after
    a question, and only those that this machine sent. With --spot, a job with use_spot_instances
    loses its instances, as on AWS at any time, and restarts on new ones from its checkpoints.
    """
    wanted = list(dict.fromkeys(names))
    if spot and (len(wanted) != 1 or is_all or is_any or session not in (None, "local")):
        raise click.UsageError("--spot takes the NAME of one job of this machine")
    if is_all == bool(names):
        raise click.UsageError("give the NAME of a job, or --all")
    if len(wanted) == 1:
        done = reclaim_spot_instances(wanted[0]) if spot else stop_job(wanted[0], session)
        if output == "json":
            print_json(done)
        return 0
    if is_all:
        wanted = _running_jobs(session or "local", is_any)
    elif not is_any:
        require_own(wanted, session)
    confirm_each("stop", wanted, yes=yes)
    return act_on_each(wanted, lambda name: stop_job(name, session), output)


def _running_jobs(session: str, is_any: bool) -> list[str]:
    """Return the running jobs that may be stopped, and mention those that are left alone."""
    opened = open_session(session)
    running = opened.list_training_jobs(StatusEquals="InProgress")["TrainingJobSummaries"]
    names = [job["TrainingJobName"] for job in running]
    wanted = [name for name in names if is_any or is_from_here(opened, name)]
    if others := [name for name in names if name not in wanted]:
        print_message(f"This machine did not send these, --any stops them: {', '.join(others)}")
    if not wanted:
        print_message("No job of this machine runs." if others else "No job runs.")
    return wanted


def stop_job(name: str, session: str | None) -> dict[str, str]:
    """Stop a job and its restarts unless it has ended; return its name and status."""
    job = Job(name, session_of(name, session))
    before = job.status
    if before in EXIT_CODES:  # it has ended
        more = f"; {due} is stopped too" if (due := job.next_attempt) else ""
        if due:
            job.stop()
        print_message(f"Job {job.name} has already ended: {before}{more}.")
        return {"name": job.name, "status": before}
    job.stop()
    print_message(f"Job {job.name} is stopping; check with `launcher status {job.name}`.")
    return {"name": job.name, "status": job.status}


def reclaim_spot_instances(name: str) -> dict[str, str]:
    """Reclaim the spot instances of a job of this machine; return its name and status."""
    session = session_of_local_job(name, "there, AWS alone takes spot instances back")
    session.interrupt_training_job(TrainingJobName=name)
    print_message(
        f"Job {name} is interrupted and restarts; follow it with `launcher logs -f {name}`."
    )
    return {"name": name, "status": Job(name, session).status}
