"""Retry a job with its alternative instance types until AWS has capacity for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

from launcher.client.jobs.durations import readable
from launcher.client.jobs.job import Job
from launcher.client.jobs.retrying_session import with_resume_hint
from launcher.client.planning.capacity_retry_policy import (
    capacity_shortage,
    next_attempt,
    type_combinations,
    with_types,
)
from launcher.client.request.job_names import NAME_LIMIT
from launcher.client.sessions.base import PlatformSession
from launcher.client.spec import JobSpec
from launcher.client.submit import is_used
from launcher.errors import CapacityError

#: Creates a job from a spec under a name, and follows it until the user detaches.
JobStarter = Callable[[JobSpec, str], Job]


def retry_capacity(
    spec: JobSpec,
    names: Iterator[str],
    start_job: JobStarter,
    *,
    notify: Callable[[str], None],
    is_left: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> Job:
    """Return the job of the first attempt that got instances.

    names: of the attempts, as `attempt_names` yields them.
    is_left: returns True once the user has detached, who does not wait for a silent platform.

    Raises CapacityError when no combination that the spec allows got instances.
    """
    # The policy chooses each attempt; this is no retry of one call (sessions/retry.py).
    choices, shortages, reason = type_combinations(spec), 0, ""
    name = next(names)
    while chosen := next_attempt(choices, shortages, spec.capacity_retry):
        attempt_name = next(names) if shortages else name
        if shortages:
            delay = f", in {readable(chosen.wait_seconds)}" if chosen.wait_seconds else ""
            notify(f"{chosen.reason}{delay}: job {attempt_name}")
            sleep(chosen.wait_seconds)
        try:
            job = start_job(with_types(spec, chosen.types), attempt_name)
            with with_resume_hint(attempt_name):
                shortage = capacity_shortage(job.description(None if is_left() else notify))
        except CapacityError as error:
            shortage = error.headline
        if shortage is None:
            return job
        reason, shortages = shortage, shortages + 1
        notify(f"job {attempt_name} got no instances: {reason.rstrip('.')}")
    raise CapacityError(_no_capacity_message(name, shortages, reason), code="CapacityError")


def attempt_names(name: str, session: PlatformSession) -> Iterator[str]:
    """Yield the names of a job's attempts, "rings", "rings-2" and so on, but those of other jobs.

    The first is yielded unseen: it is the user's own, and sending it reports a name that was used.
    """
    yield name
    numbered = (_numbered(name, number) for number in itertools.count(2))
    yield from (each for each in numbered if not is_used(each, session))


def detached_warnings(spec: JobSpec) -> Iterator[str]:
    """Yield warnings of what a job misses whose user detaches from it."""
    has_alternatives = any(group.alternatives for group in spec.instance_groups)
    if (has_alternatives or spec.capacity_retry) and not spec.is_local:
        yield (
            "alternatives and capacity_retry have no effect without waiting: if AWS has no "
            "capacity for the first types, the job fails and no other type is tried"
        )
    if spec.tracking:
        yield (
            "tracking has no effect on a job that nobody follows: its metrics are written by "
            "`launcher run` without --detach, by fit(), and by job.wait()"
        )


def _numbered(name: str, number: int) -> str:
    tail = f"-{number}"
    return name[: NAME_LIMIT - len(tail)].rstrip("-") + tail


def _no_capacity_message(name: str, shortages: int, reason: str) -> str:
    tries = "once" if shortages == 1 else f"{shortages} times"
    fix = "set alternatives of its groups or capacity_retry, or use another region"
    return f"job {name} was tried {tries} and got no instances: {reason}\n  fix: {fix}"
