"""Job names: legal for SageMaker, unique, and with the time of creation."""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timezone
from pathlib import Path

from launcher.client.spec import JobSpec
from launcher.errors import Problem

#: TrainingJobName in the CreateTrainingJob API: 1 to 63 characters, no hyphen at either end.
NAME_LIMIT = 63
_LEGAL = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_ILLEGAL_RUN = re.compile(r"[^a-zA-Z0-9]+")


def new_job_name(spec: JobSpec) -> str:
    """Return a unique name for one run of a spec: its base, the time, ten random hex digits.

    The base is that of the spec, else the names of the source's folder and of the script. Among 200
    jobs created in one second, the odds that two names collide are 1 in 55 million.
    """
    module = (spec.task or "").partition(":")[0]
    script = Path(spec.entry_point).stem or module or "job"
    return job_name(
        spec.base_job_name or _with_folder(spec, script),
        datetime.now(timezone.utc),
        secrets.token_hex(5),
    )


def _with_folder(spec: JobSpec, script: str) -> str:
    """Return a script's name behind that of its folder, where that is one of this machine."""
    source = spec.source_dir
    if not source or "://" in str(source):
        return script
    folder = Path(source).resolve().name
    return script if folder in ("", script) else f"{folder}-{script}"


def job_name(base: str, now: datetime, suffix: str) -> str:
    """Return a legal name made of any base, a time and a random suffix.

    >>> job_name("my_train", datetime(2025, 11, 20, 23, 7, 5), "3fa9")
    'my-train-20251120-230705-3fa9'
    """
    tail = f"-{now:%Y%m%d-%H%M%S}-{suffix}"
    return _legal(base)[: NAME_LIMIT - len(tail)].rstrip("-") + tail


def check_name(name: object) -> list[Problem]:
    """Return the problems with a job's name; empty if it is legal."""
    if isinstance(name, str) and _LEGAL.fullmatch(name) and len(name) <= NAME_LIMIT:
        return []
    return [
        Problem(
            what=f"{name!r} is not a legal job name (letters, digits and inner hyphens, "
            f"at most {NAME_LIMIT} characters)",
            where="the job's name",
            fix=f"use {_legal(str(name))[:NAME_LIMIT].rstrip('-')!r}",
        )
    ]


def _legal(base: str) -> str:
    return _ILLEGAL_RUN.sub("-", base).strip("-") or "job"
