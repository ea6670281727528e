"""Output of `launcher check`: findings as lines, the values of `--config`, and `--schema`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import click

from launcher.client.cli.screen.verb_output import echo, print_json
from launcher.client.doctor import CheckResult, CheckSection, Checkup, Level
from launcher.client.request import read_job
from launcher.client.sessions import (
    Platform,
    default_sources,
    defaults_files,
    read_defaults,
    value_sources,
)
from launcher.client.show import note_lines
from launcher.client.spec import schema_text

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}


_NOTE_COLUMN = 34
#: The room of a subject; the longest one of most checks is "isolation container".
_SUBJECT = 19


class CheckupScreen:
    """Prints findings as they are made, each section of them below its title.

    output: text, or json, which is printed at the end.
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._part: CheckSection | None = None

    def show(self, platform: Platform, finding: CheckResult) -> None:
        """Print a finding."""
        if self._output == "json":
            return
        if finding.part is not self._part:
            echo(f"{chr(10) if self._part else ''}{_titles(platform)[finding.part]}")
            self._part = finding.part
        echo("\n".join(_rows(finding, _SUBJECT)))

    def close(self, checkup: Checkup) -> None:
        """Print whether jobs can run."""
        if self._output == "json":
            findings = [asdict(finding) for finding in checkup.findings]
            print_json({"findings": findings, "exit_code": checkup.exit_code})
        else:
            echo(f"\n{_verdict(checkup)}")


def print_findings(findings: Iterable[CheckResult]) -> bool:
    """Print each finding on stderr as it is made; return True if none is a problem."""
    levels = {Level.OK}
    for finding in findings:
        echo("\n".join(_rows(finding, len("credentials"))), err=True)
        levels.add(finding.level)
    return Level.PROBLEM not in levels


def _titles(platform: Platform) -> dict[CheckSection, str]:
    machine_note = "" if platform.runs_here else " (only needed to run jobs here)"
    aws_note = "" if platform.uses_aws else " (only needed to submit to AWS)"
    return {
        CheckSection.MACHINE: f"This machine{machine_note}",
        CheckSection.AWS: f"AWS{aws_note}",
        CheckSection.JOB: "The job file",
        CheckSection.DATA: "The datasets, read on this machine",
    }


def _rows(finding: CheckResult, width: int) -> Iterator[str]:
    """Yield the lines of one finding, its subject padded to `width`."""
    level = click.style(f"{finding.level.value:<7}", fg=_COLOURS[finding.level])
    what, *below = finding.what.splitlines()
    yield f"  {level}  {finding.subject:<{width}}  {what}"
    for line in below:
        yield f"  {'':7}  {'':{width}}  {line}"
    for word in ("where", "fix"):
        if text := getattr(finding, word):
            yield f"  {'':7}  {'':{width}}  {word}: {text}"


def _verdict(checkup: Checkup) -> str:
    if not checkup.problems:
        return f"Jobs can run {_place(checkup.platform)}."
    count = len(checkup.problems)
    return f"{count} {'problem is' if count == 1 else 'problems are'} in the way."


def _place(platform: Platform) -> str:
    if platform.uses_aws:
        return "on AWS, as far as it can be seen from here"
    return "on this machine" if platform.runs_here else f"on {platform.name}"


def print_config(job_file: Path | None, changes: tuple[str, ...], output: str) -> int:
    """Print the defaults from files, or the values of a job, and where each comes from."""
    defaults = read_defaults()
    if job_file:
        spec = read_job(job_file, changes)
        rows = list(value_sources(spec, str(job_file), defaults))
    else:
        rows = list(default_sources(defaults))
    files = [{"file": str(f.path), "exists": f.path.is_file()} for f in defaults_files()]
    if output == "json":
        print_json({"values": [vars(row) for row in rows], "files": files})
        return 0
    notes = [
        (row.field, f"{'-' if row.value is None else row.value}  ({row.source})") for row in rows
    ]
    echo("\n".join(note_lines(notes, _NOTE_COLUMN)))
    for file in files:
        echo(f"{'read' if file['exists'] else 'not there'}: {file['file']}", err=True)
    return 0


def print_schema() -> int:
    """Print the JSON schema of a job file."""
    click.echo(schema_text(), nl=False)
    return 0
