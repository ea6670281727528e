"""Secrets of a job: environment variables whose values are in no request, file or log.

A request names the source of each in a variable of its own: LAUNCHER_SECRET_<NAME> is "env" (the
environment of the user who sends the job, which only jobs on that machine can have), or the ARN of
a secret of AWS Secrets Manager, which each host reads when it starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SECRET_PREFIX = "LAUNCHER_SECRET_"
#: The source of a value that the user's environment has.
FROM_ENVIRONMENT = "env"
#: A shorter value cannot be told from other text, and so not be kept out of a log.
SHORTEST_SECRET = 4
#: Source: https://docs.aws.amazon.com/secretsmanager/latest/userguide/reference_iam-permissions.html
SECRET_ARN = re.compile(
    r"arn:(?P<partition>aws[a-z-]*):secretsmanager:(?P<region>[a-z0-9-]+):\d{12}:secret:[\w/+=.@-]+",
    re.ASCII,
)


def secret_variables_of(sources: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the source of each secret."""
    return {f"{SECRET_PREFIX}{name}": source for name, source in sources.items()}


def secret_sources(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the source of each secret of a request or a process, by the variable that gets it."""
    return {
        name.removeprefix(SECRET_PREFIX): source
        for name, source in environment.items()
        if name.startswith(SECRET_PREFIX)
    }
