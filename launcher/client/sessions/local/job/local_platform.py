"""LOCAL_PLATFORM: the platform traits of local sessions (no bills, file:// URIs, jobs run here)."""

from __future__ import annotations

from functools import partial

from launcher.client.sessions.base import Platform
from launcher.client.sessions.request_limits import violations_without_aws
from launcher.errors import Unreachable

LOCAL_PLATFORM = Platform(
    name="local",
    bills=False,
    uri_scheme="file",
    reads_files=True,
    judge=partial(violations_without_aws, scheme="file"),
    is_transient=lambda error: isinstance(error, Unreachable),
    runs_here=True,
)
