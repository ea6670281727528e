"""Retry a job with its alternative instance types until AWS has capacity for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from launcher.client.jobs import Job, with_resume_hint
from launcher.client.sessions import NAME_LIMIT, PlatformSession
from launcher.client.show import readable
from launcher.client.spec import CapacityRetry, JobSpec
from launcher.client.submit import is_used
from launcher.errors import CapacityError

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription


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


_ONCE = CapacityRetry(attempts=1, wait_seconds=0)
#: The beginning of DescribeTrainingJob's FailureReason, and the text that follows it.
_SHORTAGE_TEXTS = ("CapacityError", "Unable to provision requested ML compute capacity")


@dataclass(frozen=True, kw_only=True)
class NextAttempt:
    """An attempt to get instances, and the wait before it.

    types: the instance type of each group; wait_seconds: the delay before it; reason: an
    explanation for the user.
    """

    types: Mapping[str, str]
    wait_seconds: int
    reason: str


def type_combinations(spec: JobSpec) -> list[dict[str, str]]:
    """Return all combinations of types to try, those nearest to the first choice first.

    With two groups of one alternative each: both first choices, then one of them changed, then
    both.
    """
    groups = [(group.instance_type, *group.alternatives) for group in spec.instance_groups]
    places = itertools.product(*(range(len(types)) for types in groups))
    return [
        {
            group.instance_group_name: types[place]
            for group, types, place in zip(spec.instance_groups, groups, chosen, strict=True)
        }
        for chosen in sorted(places, key=sum)
    ]


def next_attempt(
    choices: Sequence[Mapping[str, str]], shortages: int, retry: CapacityRetry | None
) -> NextAttempt | None:
    """Return the attempt after this many shortages in a row; None when all allowed ones failed."""
    retry = retry or _ONCE
    attempt, number = divmod(shortages, len(choices))
    if attempt >= retry.attempts:
        return None
    if number > 0:
        reason = f"trying {_types_text(choices[number])}, choice {number + 1} of {len(choices)}"
        return NextAttempt(types=choices[number], wait_seconds=0, reason=reason)
    reason = f"trying again from the first choice, attempt {attempt + 1} of {retry.attempts}"
    wait_seconds = retry.wait_seconds if attempt else 0
    return NextAttempt(types=choices[0], wait_seconds=wait_seconds, reason=reason)


def with_types(spec: JobSpec, types: Mapping[str, str]) -> JobSpec:
    """Return the spec with these types in its groups, and without alternatives."""
    groups = tuple(
        replace(group, instance_type=types[group.instance_group_name], alternatives=())
        for group in spec.instance_groups
    )
    return spec.replace(instance_groups=groups) if groups else spec


def capacity_shortage(description: TrainingJobDescription) -> str | None:
    """Return AWS's reason if a job failed for lack of instances before it trained; else None."""
    reason = str(description.get("FailureReason", ""))
    changes = description.get("SecondaryStatusTransitions", [])
    has_trained = any(change["Status"] == "Training" for change in changes)
    is_failed = description["TrainingJobStatus"] == "Failed"
    is_short = is_failed and not has_trained and any(text in reason for text in _SHORTAGE_TEXTS)
    return reason if is_short else None


def _types_text(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in types.items())
