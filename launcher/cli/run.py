"""launcher run: send a job and follow it to its end."""

from __future__ import annotations

from pathlib import Path

import click

from launcher.cli import candidates
from launcher.cli.answer import answers, print_json, tell_warnings
from launcher.cli.ctrl_c import hold_ctrl_c, tell_detached
from launcher.cli.follow import follow, tell_started
from launcher.cli.options import changes_option, local_host_options
from launcher.cli.screen import summary_screen
from launcher.errors import CloudError
from launcher.job import Job
from launcher.request.submission import prepare, redacted
from launcher.sessions.local import LocalSession
from launcher.sessions.submission import new_job_name, place, place_offline, send
from launcher.spec import JobSpec


@click.command()
@click.argument("job_file", type=click.Path(path_type=Path), shell_complete=candidates.job_files)
@click.option("--local", is_flag=True, help="Run on this machine, whatever the instance types.")
@local_host_options
@click.option("-d", "--detach", is_flag=True, help="Return once the job is created.")
@click.option("--dry-run", is_flag=True, help="Print the CreateTrainingJob request, send nothing.")
@click.option("--name", help="Name of the job; by default one is made.")
@changes_option
@answers
def run(
    job_file: Path,
    local: bool,
    isolation: str | None,
    detach: bool,
    host_failure: str,
    dry_run: bool,
    name: str | None,
    changes: tuple[str, ...],
    output: str,
) -> int:
    """Run a job and follow it to its end.

    JOB_FILE describes the job. Its hosts' lines are shown as they come, and a summary at the end.
    Ctrl-C leaves the job running and says how to come back to it; twice within 3 s stops it.
    """
    spec = JobSpec.from_yaml(job_file, changes)
    name = name or new_job_name(spec)
    is_local = local or spec.is_local
    session = LocalSession(isolation=isolation, host_failure=host_failure) if is_local else None
    if session is None and not dry_run:
        raise CloudError(
            "this version runs jobs on this machine only: add --local to run this job here, or "
            "--dry-run to print its CreateTrainingJob request"
        )
    placement = place(spec, session, name) if session else place_offline(spec, name)
    submission = prepare(spec, placement)
    tell_warnings(submission.warnings)
    if dry_run or session is None:
        print_json(redacted(submission.request))
        return 0
    job = Job(name, session)
    with hold_ctrl_c() as is_pressed:
        send(submission, session)
        tell_started(job)
    if detach := detach or is_pressed():
        tell_detached(name)
    finished = not detach and follow(job)
    summary = job.summary()
    if output == "json":
        print_json(summary)
    else:
        click.echo(summary_screen(summary) if finished else name)
    return summary["exit_code"] if finished else 0
