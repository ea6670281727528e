"""What a checkup found, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from launcher.checkup import Finding, Level

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}


def rows(finding: Finding, width: int) -> Iterator[str]:
    """The lines of one finding, its subject filled up to a width."""
    level = click.style(f"{finding.level.value:<7}", fg=_COLOURS[finding.level])
    yield f"  {level}  {finding.subject:<{width}}  {finding.what}"
    for word in ("where", "fix"):
        if text := getattr(finding, word):
            yield f"  {'':7}  {'':{width}}  {word}: {text}"


def tell_findings(findings: Iterable[Finding]) -> bool:
    """Print findings on stderr, as each is made; whether none of them is a problem."""
    levels = {Level.OK}
    for finding in findings:
        click.echo("\n".join(rows(finding, len("credentials"))), err=True)
        levels.add(finding.level)
    return Level.PROBLEM not in levels
