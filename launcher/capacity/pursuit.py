"""One try after the other, until a job has its instances."""

from __future__ import annotations

import time
from collections.abc import Callable

from launcher.capacity.policy import choices_of, next_step, shortage_of, with_types
from launcher.errors import CapacityError
from launcher.following.durations import readable
from launcher.following.patience import telling_way_back
from launcher.job import Job
from launcher.request.names import NAME_LIMIT
from launcher.spec import JobSpec

#: Makes a job of a spec under a name, and follows it as long as somebody wants to.
Attempt = Callable[[JobSpec, str], Job]


def pursue(
    spec: JobSpec,
    name: str,
    attempt: Attempt,
    *,
    tell: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> Job:
    """The job of the first try for which AWS had instances; its name ends with the try's number.

    Raises CapacityError when there were none for anything that the spec allows.
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
    """What to say to one who leaves at once a job that has a second choice; None: nothing."""
    has_alternatives = any(group.alternatives for group in spec.instance_groups)
    if spec.is_local or not (has_alternatives or spec.capacity_retry):
        return None
    return (
        "alternatives and capacity_retry need somebody who waits: where AWS has no instances of "
        "the first types, this job fails, and no other is tried"
    )


def _numbered(name: str, number: int) -> str:
    """The name of a try: "rings", "rings-2", "rings-3"."""
    if number == 1:
        return name
    tail = f"-{number}"
    return name[: NAME_LIMIT - len(tail)].rstrip("-") + tail


def _given_up(name: str, shortages: int, lack: str) -> str:
    tries = "once" if shortages == 1 else f"{shortages} times"
    fix = "give alternatives to its groups, or capacity_retry, or try another region"
    return f"job {name} was tried {tries}, and AWS had no instances: {lack}\n  fix: {fix}"
