"""Values of a local job's secrets, which are in the environment of the user who sends it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.client.sessions.local.job.host_credentials import credential_secrets
from launcher.shared import SecretMask, secret_sources

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest


def secret_values(request: TrainingJobRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each secret that an environment has, whatever its source on AWS is."""
    names = secret_sources(request.get("Environment", {}))
    return {name: environment[name] for name in names if name in environment}


def secret_mask(request: TrainingJobRequest) -> SecretMask:
    """Return the mask of a job's secrets and credentials, which this process's environment has."""
    values = {**secret_values(request, os.environ), **credential_secrets(os.environ)}
    return SecretMask(values.values())
