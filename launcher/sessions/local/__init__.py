"""This machine as a platform: runs the request that would go to SageMaker, one process per host."""

from __future__ import annotations

from launcher.sessions.local.isolation import Isolation
from launcher.sessions.local.session import LocalSession

__all__ = ["LocalSession", "Isolation"]
