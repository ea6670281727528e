"""Selection of hosts whose lines are shown or analysed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from launcher.client.spec.suggestions import choice_fix
from launcher.errors import Problem, SpecError
from launcher.shared import JobDocument, Role


def chosen_hosts(
    groups: Mapping[str, str], *, group: str | None, host: str | None
) -> frozenset[str]:
    """Return the hosts of a group, or the host of a name.

    groups: the group of each host. Raises SpecError for a group or host that the job does not have.
    """
    problems = [
        *_unknown("group", group, dict.fromkeys(groups.values())),
        *_unknown("host", host, groups),
    ]
    if problems:
        raise SpecError(problems)
    return frozenset(
        name
        for name, its_group in groups.items()
        if host in (None, name) and group in (None, its_group)
    )


def training_hosts(
    groups: Mapping[str, str], document: JobDocument | None
) -> frozenset[str] | None:
    """Return the hosts that train; None (any host may) for a job without a job document."""
    if document is None:
        return None
    roles = document.roles
    return frozenset(host for host, group in groups.items() if roles.get(group) is Role.TRAIN)


def _unknown(kind: str, given: str | None, known: Mapping[str, object]) -> Iterator[Problem]:
    if given is not None and given not in known:
        yield Problem(
            what=f"the job has no {kind} {given!r}; it has {', '.join(known)}",
            where=f"--{kind}",
            fix=choice_fix(given, known),
        )
