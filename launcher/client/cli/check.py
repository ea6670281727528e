"""`launcher check`: report what works here, what does not, and how to fix it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from launcher.client.cli.check_output import checkup_screen
from launcher.client.cli.json_output import print_json
from launcher.client.cli.session_options import session_of_check_option
from launcher.client.cli.shared_options import optional_job_file_options
from launcher.client.cli.verb_output import with_output_option
from launcher.client.doctor.checkup import run_checks


@click.command()
@session_of_check_option
@optional_job_file_options
@with_output_option
def check(job_file: Path | None, session: str | None, changes: tuple[str, ...], output: str) -> int:
    """Report what works here and what does not.

    Checks this machine, AWS as far as it can be seen from here, and JOB_FILE. Creates nothing.
    The exit code is 0 when a job (JOB_FILE, if given) can run on the session: this machine, AWS
    with --cloud, or the one that --session names; else 2.
    """
    checkup = run_checks(job_file, changes, session=session or "local")
    if output == "json":
        findings = [dataclasses.asdict(finding) for finding in checkup.findings]
        print_json({"findings": findings, "exit_code": checkup.exit_code})
    else:
        click.echo(checkup_screen(checkup))
    return checkup.exit_code
