"""What stands between the hosts of a local job, and how a host is started behind it."""

from __future__ import annotations

from launcher.sessions.local.isolation.berth import Berth, StartPlan
from launcher.sessions.local.isolation.choice import (
    Isolation,
    choose_isolation,
    obstacles,
    plan_start,
    why_not_sandboxed,
)

__all__ = [
    "Isolation",
    "choose_isolation",
    "obstacles",
    "why_not_sandboxed",
    "Berth",
    "StartPlan",
    "plan_start",
]
