"""Connection of the checks to AWS: short timeouts, no retries, and read-only requests."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from launcher.client.sessions import guard_calls, translate_errors

_SECONDS = 3
#: For global services, and for GetCallerIdentity where no region is configured.
_DEFAULT_REGION = "us-east-1"


class Connection:
    """Credentials and region that boto3 finds on this machine, and clients with short timeouts.

    use_instance_role: also look for the role of an EC2 instance, which takes seconds elsewhere.
    """

    def __init__(self, *, use_instance_role: bool) -> None:
        self._ask_instance = use_instance_role

    @property
    def region(self) -> str | None:
        """The configured region; None if there is none."""
        with translate_errors():
            region: str | None = self._session.region_name
        return region

    @property
    def has_credentials(self) -> bool:
        """True if boto3 finds credentials."""
        with translate_errors():
            return self._session.get_credentials() is not None

    def client(self, service: str, region: str | None = None) -> Any:
        """Return boto3's client of a service, with short timeouts and without retries."""
        from botocore.config import Config

        client = self._session.client(
            service,
            region_name=region or self.region or _DEFAULT_REGION,
            config=Config(
                connect_timeout=_SECONDS,
                read_timeout=_SECONDS,
                retries={"total_max_attempts": 1},
            ),
        )
        guard_calls(client)
        return client

    @cached_property
    def _session(self) -> Any:
        import boto3
        import botocore.session

        with translate_errors():
            core = botocore.session.Session()
            if not self._ask_instance:
                core.get_component("credential_provider").remove("iam-role")
            return boto3.Session(botocore_session=core)
