"""Check that the values of a job's secrets are in the environment of the user who sends it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from launcher.client.sessions.local.secret_values import secret_values
from launcher.errors import Problem
from launcher.shared.secret_origins import SHORTEST_SECRET, secret_sources

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest


def check_secrets(request: TrainingJobRequest, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each secret without a value, and for one that could not be redacted.

    environment: the variables that the platform process has in addition to ours.
    """
    values = secret_values(request, {**os.environ, **environment})
    for name in secret_sources(request.get("Environment", {})):
        if name not in values:
            yield Problem(
                what=f"the secret {name} is not in your environment",
                where=f"secrets.{name}",
                fix=f"export {name}=...: on this machine the values of secrets come from there",
            )
        elif len(values[name]) < SHORTEST_SECRET:
            few = f"fewer than {SHORTEST_SECRET} characters"
            yield Problem(
                what=f"the secret {name} has {few}, and could not be kept out of the logs",
                where=f"secrets.{name}",
                fix="give it as a variable of the environment, or make it longer",
            )
