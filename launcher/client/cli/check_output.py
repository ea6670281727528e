"""Findings of a check as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from launcher.client.doctor.check_result import CheckResult, Level

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}


def rows(finding: CheckResult, width: int) -> Iterator[str]:
    """Yield the lines of one finding, its subject padded to `width`."""
    level = click.style(f"{finding.level.value:<7}", fg=_COLOURS[finding.level])
    yield f"  {level}  {finding.subject:<{width}}  {finding.what}"
    for word in ("where", "fix"):
        if text := getattr(finding, word):
            yield f"  {'':7}  {'':{width}}  {word}: {text}"


def print_findings(findings: Iterable[CheckResult]) -> bool:
    """Print each finding on stderr as it is made; return True if none is a problem."""
    levels = {Level.OK}
    for finding in findings:
        click.echo("\n".join(rows(finding, len("credentials"))), err=True)
        levels.add(finding.level)
    return Level.PROBLEM not in levels
