"""This machine as a platform: runs the request that would go to SageMaker, one process per host."""

from __future__ import annotations

from launcher.client.sessions.local.isolation_level import Isolation
from launcher.client.sessions.local.local_session import LocalSession

__all__ = ["LocalSession", "Isolation"]
