"""This machine as a platform: the request that would go to SageMaker runs here, host by host."""

from __future__ import annotations

from launcher.sessions.local.isolation import Isolation
from launcher.sessions.local.session import LocalSession

__all__ = ["LocalSession", "Isolation"]
