"""`launcher run`: send a job and follow it to its end."""

from __future__ import annotations

from pathlib import Path

import click

from launcher.client.cli import completion_values
from launcher.client.cli.approval import approval_options, ask, nothing_sent
from launcher.client.cli.check_output import tell_findings
from launcher.client.cli.send_job import JobSender
from launcher.client.cli.shared_options import changes_option, dry_run_options, local_host_options
from launcher.client.cli.verb_output import answers, print_json
from launcher.client.doctor import examine_aws
from launcher.client.request.prepared import redacted
from launcher.client.sessions.job_location import new_job_name
from launcher.client.sessions.local import LocalSession
from launcher.client.sessions.resolve import aws_session
from launcher.client.spec import JobSpec
from launcher.errors import SpecError


@click.command()
@click.argument(
    "job_file", type=click.Path(path_type=Path), shell_complete=completion_values.job_files
)
@click.option("--local", is_flag=True, help="Run on this machine, whatever the instance types.")
@local_host_options
@click.option("-d", "--detach", is_flag=True, help="Return once the job is created.")
@dry_run_options
@click.option("--name", help="Name of the job; by default one is made.")
@approval_options
@changes_option
@answers
def run(
    job_file: Path,
    local: bool,
    isolation: str | None,
    detach: bool,
    host_failure: str,
    dry_run: bool,
    resolve: bool,
    upload: bool,
    name: str | None,
    max_cost: float | None,
    yes: bool,
    changes: tuple[str, ...],
    output: str,
) -> int:
    """Run a job and follow it to its end.

    JOB_FILE describes the job. Its hosts' lines are shown as they arrive, then a summary.
    Ctrl-C leaves the job running and says how to return to it; twice within 3 s stops it.

    A job for AWS is sent only after its plan and what it may cost were shown.
    """
    spec = JobSpec.from_yaml(job_file, changes)
    name = name or new_job_name(spec)
    local = local or spec.is_local
    if (resolve or upload) and (local or not dry_run):
        raise click.UsageError("--resolve and --upload go with the --dry-run of a job for AWS")
    launch = JobSender(
        session=LocalSession(isolation=isolation, host_failure=host_failure)
        if local
        else aws_session(),
        is_offline=dry_run and not (local or resolve or upload),
        max_cost=max_cost,
        is_left=detach,
    )
    is_fine = not resolve or tell_findings(examine_aws(spec))
    with nothing_sent(name):
        submission = launch.prepare(spec, name)
        if dry_run:
            print_json(launch.upload(submission) if upload else redacted(submission.request))
            return 0 if is_fine else SpecError.exit_code
        if not (local or yes):
            ask(name)
    return launch.answer(launch.run(spec, name, submission), output)
