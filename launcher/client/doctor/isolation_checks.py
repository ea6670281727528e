"""The isolations of local hosts that work here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.sessions.local.isolation import Isolation, obstacles

_GIVES = {
    Isolation.PROCESS: "works: hosts have folders and addresses of their own",
    Isolation.SANDBOX: "works: hosts also have their own /opt/ml, host name and processes",
    Isolation.NETWORK: "works: hosts also have a network of their own",
}
_MENDS = {
    Isolation.SANDBOX: "install bubblewrap (apt-get install bubblewrap), and allow unprivileged "
    "user namespaces",
    Isolation.NETWORK: "install bubblewrap, iproute2 and util-linux (apt-get install bubblewrap "
    "iproute2 util-linux), and allow unprivileged user namespaces",
}


def check() -> Iterator[CheckResult]:
    """Yield a finding for each isolation; a broken one is a warning as long as another works."""
    if not sys.platform.startswith("linux"):
        what = f"local jobs need Linux, and this is {sys.platform}"
        yield CheckResult(
            part=CheckSection.MACHINE, subject="isolation", level=Level.PROBLEM, what=what
        )
        return
    found = obstacles()
    none_works = all(found.values())
    for isolation, obstacle in found.items():
        yield _finding(isolation, obstacle, Level.PROBLEM if none_works else Level.WARNING)


def _finding(isolation: Isolation, obstacle: str | None, level: Level) -> CheckResult:
    return CheckResult(
        part=CheckSection.MACHINE,
        subject=f"isolation {isolation.value}",
        level=level if obstacle else Level.OK,
        what=f"does not work: {obstacle}" if obstacle else _GIVES[isolation],
        fix=_MENDS.get(isolation) if obstacle else None,
    )
