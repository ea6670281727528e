"""`launcher check`: report what works here, what does not, and how to fix it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import click

from launcher.client.cli import completion_values
from launcher.client.cli.check_output import rows
from launcher.client.cli.shared_options import changes_option
from launcher.client.cli.verb_output import print_json, with_output_option
from launcher.client.doctor.check_result import CheckSection, Checkup
from launcher.client.doctor.checkup import run_checks


@click.command()
@click.argument(
    "job_file",
    type=click.Path(path_type=Path),
    required=False,
    shell_complete=completion_values.job_files,
)
@click.option("--cloud", is_flag=True, help="Judge the job as one for AWS instead of this machine.")
@changes_option
@with_output_option
def check(job_file: Path | None, cloud: bool, changes: tuple[str, ...], output: str) -> int:
    """Report what works here and what does not.

    Checks this machine, AWS as far as it can be seen from here, and JOB_FILE. Creates nothing.
    The exit code is 0 when a job (JOB_FILE, if given) can run on this machine, or with --cloud on
    AWS; else 2.
    """
    checkup = run_checks(job_file, changes, cloud=cloud)
    if output == "json":
        findings = [dataclasses.asdict(finding) for finding in checkup.findings]
        print_json({"findings": findings, "exit_code": checkup.exit_code})
    else:
        click.echo("\n".join(_screen(checkup, cloud)))
    return checkup.exit_code


def _screen(checkup: Checkup, cloud: bool) -> Iterator[str]:
    titles = {
        CheckSection.MACHINE: "This machine (only needed to run jobs here)"
        if cloud
        else "This machine",
        CheckSection.AWS: "AWS" if cloud else "AWS (only needed to submit to AWS)",
        CheckSection.JOB: "The job file",
    }
    width = max(len(finding.subject) for finding in checkup.findings)
    for part, title in titles.items():
        found = [finding for finding in checkup.findings if finding.part is part]
        if found:
            yield title
            for finding in found:
                yield from rows(finding, width)
            yield ""
    yield _verdict(checkup, cloud)


def _verdict(checkup: Checkup, cloud: bool) -> str:
    place = "on AWS, as far as it can be seen from here" if cloud else "on this machine"
    if not checkup.problems:
        return f"Jobs can run {place}."
    count = len(checkup.problems)
    return f"{count} {'problem is' if count == 1 else 'problems are'} in the way."
