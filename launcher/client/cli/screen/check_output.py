"""Findings of a check as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from launcher.client.cli.screen.verb_output import echo
from launcher.client.doctor import CheckResult, CheckSection, Checkup, Level
from launcher.client.sessions import Platform

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}


def checkup_screen(checkup: Checkup) -> str:
    """Return all findings by section, then whether jobs can run, as text."""
    return "\n".join(_lines(checkup))


def print_findings(findings: Iterable[CheckResult]) -> bool:
    """Print each finding on stderr as it is made; return True if none is a problem."""
    levels = {Level.OK}
    for finding in findings:
        echo("\n".join(_rows(finding, len("credentials"))), err=True)
        levels.add(finding.level)
    return Level.PROBLEM not in levels


def _lines(checkup: Checkup) -> Iterator[str]:
    width = max(len(finding.subject) for finding in checkup.findings)
    for part, title in _titles(checkup.platform).items():
        found = [finding for finding in checkup.findings if finding.part is part]
        if found:
            yield title
            for finding in found:
                yield from _rows(finding, width)
            yield ""
    yield _verdict(checkup)


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
