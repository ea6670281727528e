"""Isolation of a local job's hosts from each other, and how an isolated host is started."""

from __future__ import annotations

from launcher.client.sessions.local.isolation.host_launch_spec import HostLaunchSpec, StartPlan
from launcher.client.sessions.local.isolation.isolation_choice import (
    choose_isolation,
    obstacles,
    plan_start,
    why_not_sandboxed,
)
from launcher.client.sessions.local.isolation_level import Isolation

__all__ = [
    "Isolation",
    "choose_isolation",
    "obstacles",
    "why_not_sandboxed",
    "HostLaunchSpec",
    "StartPlan",
    "plan_start",
]
