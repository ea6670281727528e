"""The levels of isolation between the hosts of a local job; for fidelity, not security."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from launcher.client.sessions.local.isolation import (
    container_isolation,
    network_isolation,
    process_isolation,
    sandbox_isolation,
)
from launcher.client.sessions.local.isolation.host_launch_spec import HostLaunchSpec, StartPlan
from launcher.client.sessions.local.isolation_level import Isolation
from launcher.errors import PlatformError

_FINDERS: dict[Isolation, Callable[[], str | None]] = {
    Isolation.PROCESS: process_isolation.find_obstacle,
    Isolation.SANDBOX: sandbox_isolation.find_obstacle,
    Isolation.NETWORK: network_isolation.find_obstacle,
    Isolation.CONTAINER: container_isolation.find_obstacle,
}
_PLANNERS: dict[Isolation, Callable[[HostLaunchSpec], StartPlan]] = {
    Isolation.PROCESS: process_isolation.plan_start,
    Isolation.SANDBOX: sandbox_isolation.plan_start,
    Isolation.NETWORK: network_isolation.plan_start,
    Isolation.CONTAINER: container_isolation.plan_start,
}


def obstacles() -> dict[Isolation, str | None]:
    """Return the obstacle to each isolation on this machine, with a fix; None: it works."""
    system = sys.platform  # mypy takes the test of sys.platform itself for always true
    if not system.startswith("linux"):
        others = dict.fromkeys(_FINDERS, f"it needs Linux, but this is {system}")
        return {**others, Isolation.CONTAINER: container_isolation.find_obstacle()}
    return {isolation: find() for isolation, find in _FINDERS.items()}


def choose_isolation(wanted: str | None, engine: str | None = None) -> Isolation:
    """Return the isolation of a new job: as wanted, or by default sandbox where it works.

    engine: the container engine, by its name or path.
    Raises PlatformError for an unknown isolation, and for one that does not work here.
    """
    if wanted is None:
        return Isolation.PROCESS if sandbox_isolation.find_obstacle() else Isolation.SANDBOX
    known = [each.value for each in Isolation]
    if wanted not in known:
        raise PlatformError(f"unknown isolation {wanted!r}: use {' or '.join(known)}")
    isolation = Isolation(wanted)
    is_container = isolation is Isolation.CONTAINER
    find = (
        partial(container_isolation.find_obstacle, engine) if is_container else _FINDERS[isolation]
    )
    if obstacle := find():
        raise PlatformError(
            f"isolation {wanted!r} does not work here: {obstacle}; or use isolation 'process'"
        )
    return isolation


def why_not_sandboxed() -> str:
    """Return the note for a job that falls back to isolation process."""
    return (
        "hosts are plain processes with folders of their own, because no sandbox works here: "
        f"{sandbox_isolation.find_obstacle()}"
    )


def plan_start(launch_spec: HostLaunchSpec, isolation: Isolation) -> StartPlan:
    """Put a host's channels in place and return the process to start as the host."""
    return _PLANNERS[isolation](launch_spec)
