"""Rules for secrets: their names and sources. No message contains what may be a value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.rules.limit_rules import is_overwritten, is_variable
from launcher.errors import Problem
from launcher.shared import FROM_ENVIRONMENT, SECRET_ARN

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

#: SageMaker's limit for the length of a variable's value, which is the ARN.
_LONGEST_ARN = 512


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find secrets without a usable name or source, and those of a job that cannot read them."""
    for name, source in spec.secrets.items():
        path = ("secrets", name)
        if not is_variable(name):
            what = "a secret has a name that no environment variable can have"
            fix = "use letters, digits and _, and no digit first"
            yield Problem(path=("secrets",), what=what, fix=fix)
        elif is_overwritten(spec, name):
            what = f"{name} is set by Launcher itself, so the secret would be lost"
            yield Problem(path=path, what=what, fix="give it another name")
        elif name in spec.environment:
            what = f"{name} is in environment, too"
            yield Problem(path=path, about=(("environment",),), what=what, fix="remove it there")
        elif source != FROM_ENVIRONMENT and not _is_arn(source):
            what = f"the source of the secret {name} is neither {FROM_ENVIRONMENT} nor an ARN"
            fix = (
                f'write "{name}: {FROM_ENVIRONMENT}", which takes the value from your environment '
                "for jobs on this machine, or the ARN of a secret of AWS Secrets Manager"
            )
            yield Problem(path=path, what=what, fix=fix)
    if spec.secrets and not spec.starts_launcher:
        what = "secrets are read by Launcher, which this job does not start"
        fix = "remove them, or give the job an entry_point of its own"
        yield Problem(path=("secrets",), what=what, fix=fix)


def _is_arn(source: str) -> bool:
    return SECRET_ARN.fullmatch(source) is not None and len(source) <= _LONGEST_ARN
