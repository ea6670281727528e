"""Retry a job until AWS has instances for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from launcher.client.jobs.durations import readable
from launcher.client.jobs.job import Job
from launcher.client.jobs.retrying_session import telling_way_back
from launcher.client.planning.capacity_policy import choices_of, next_step, shortage_of, with_types
from launcher.client.request.job_names import NAME_LIMIT
from launcher.client.spec import JobSpec
from launcher.errors import CapacityError

#: Creates a job from a spec under a name, and follows it until the user detaches.
Attempt = Callable[[JobSpec, str], Job]


def retry_capacity(
    spec: JobSpec,
    name: str,
    attempt: Attempt,
    *,
    tell: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> Job:
    """Return the job of the first attempt that got instances; later attempts get a numbered name.

    Raises CapacityError when nothing that the spec allows got any.
    """
    choices, shortages, lack = choices_of(spec), 0, ""
    while step := next_step(choices, shortages, spec.capacity_retry):
        tried = _numbered(name, shortages + 1)
        if shortages:
            later = f", in {readable(step.wait_seconds)}" if step.wait_seconds else ""
            tell(f"{step.reason}{later}: job {tried}")
            pause(step.wait_seconds)
        try:
            job = attempt(with_types(spec, step.types), tried)
            with telling_way_back(tried):
                said = shortage_of(job.description())
        except CapacityError as error:
            said = error.headline
        if said is None:
            return job
        lack, shortages = said, shortages + 1
        tell(f"job {tried} got no instances: {lack.rstrip('.')}")
    raise CapacityError(_given_up(name, shortages, lack), code="CapacityError")


def needs_somebody_who_waits(spec: JobSpec) -> str | None:
    """Return a warning for a user who detaches from a job that has retries; None if not needed."""
    has_alternatives = any(group.alternatives for group in spec.instance_groups)
    if spec.is_local or not (has_alternatives or spec.capacity_retry):
        return None
    return (
        "alternatives and capacity_retry need somebody who waits: where AWS has no instances of "
        "the first types, this job fails, and no other is tried"
    )


def _numbered(name: str, number: int) -> str:
    """Return the name of an attempt: "rings", "rings-2", "rings-3"."""
    if number == 1:
        return name
    tail = f"-{number}"
    return name[: NAME_LIMIT - len(tail)].rstrip("-") + tail


def _given_up(name: str, shortages: int, lack: str) -> str:
    tries = "once" if shortages == 1 else f"{shortages} times"
    fix = "give alternatives to its groups, or capacity_retry, or try another region"
    return f"job {name} was tried {tries}, and AWS had no instances: {lack}\n  fix: {fix}"
