"""How far apart the hosts of a local job are; fidelity, not security."""

from __future__ import annotations

import enum

from launcher.errors import PlatformError
from launcher.sessions.local.isolation import process, sandbox
from launcher.sessions.local.isolation.berth import Berth, StartPlan


class Isolation(str, enum.Enum):
    """What stands between the hosts of a job.

    PROCESS: a process tree and folders of its own; /opt/ml is elsewhere, peers have addresses.
    SANDBOX: also its own /opt/ml, /etc/hosts, host name, process table, /tmp and /dev/shm.
    """

    PROCESS = "process"
    SANDBOX = "sandbox"


def choose_isolation(wanted: str | None) -> Isolation:
    """The isolation of a new job: as wanted, or the strongest that works here when None.

    Raises PlatformError for an unknown word, and when a wanted sandbox does not work.
    """
    known = [each.value for each in Isolation]
    if wanted is not None and wanted not in known:
        raise PlatformError(f"isolation {wanted!r} is not known: use {' or '.join(known)}")
    if wanted == Isolation.PROCESS.value:
        return Isolation.PROCESS
    obstacle = sandbox.find_obstacle()
    if obstacle is None:
        return Isolation.SANDBOX
    if wanted is None:
        return Isolation.PROCESS
    raise PlatformError(
        f"isolation 'sandbox' does not work here: {obstacle}; install bubblewrap, allow "
        "unprivileged user namespaces, or use isolation 'process'"
    )


def obstacles() -> dict[Isolation, str | None]:
    """Why each isolation does not work on this machine; None for one that does."""
    return {Isolation.PROCESS: None, Isolation.SANDBOX: sandbox.find_obstacle()}


def why_not_sandboxed() -> str:
    """For the user of a job whose hosts are plain processes though nobody asked for that."""
    return (
        "hosts are plain processes with folders of their own, since no sandbox works here: "
        f"{sandbox.find_obstacle()} (on Debian and Ubuntu: apt-get install bubblewrap)"
    )


def plan_start(berth: Berth, isolation: Isolation) -> StartPlan:
    """Put a host's channels in place and say which process of this machine the host is."""
    match isolation:
        case Isolation.PROCESS:
            return process.plan_start(berth)
        case Isolation.SANDBOX:
            return sandbox.plan_start(berth)
