"""Isolation of a local job's hosts from each other, and how an isolated host is started."""

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
