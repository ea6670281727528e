"""The attempts at a job: other types while AWS has no capacity, and restarts by its policy."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from math import inf
from typing import TYPE_CHECKING

from launcher.client.jobs import Job, with_resume_hint
from launcher.client.sessions import (
    JobRecord,
    PlatformSession,
    RestartsJobs,
    job_file,
    numbered_names,
    read_record,
    write_record,
)
from launcher.client.show import readable
from launcher.client.spec import JobSpec, Retry
from launcher.client.submit import is_used
from launcher.errors import CapacityError, CloudError, JobNotFound, SpecError
from launcher.shared import HOST_LOST, OUT_OF_CAPACITY, cause_text, end_cause

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription

_ONCE = Retry(attempts=1, on=())


@dataclass(frozen=True, kw_only=True)
class JobAttempt:
    """One attempt at a job.

    names: of the attempts so far, of which this is the last. spent: dollars, by those before.
    """

    spec: JobSpec
    names: tuple[str, ...]
    spent: float

    @property
    def name(self) -> str:
        """The name of the attempt's job."""
        return self.names[-1]


def run_attempts(
    spec: JobSpec,
    name: str,
    session: PlatformSession,
    create: Callable[[JobAttempt], Job],
    follow: Callable[[Job], None],
    *,
    notify: Callable[[str], None],
    is_left: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> Job:
    """Return the job of the last attempt, which is the first that does not call for another.

    Each name is in the first job's record before its job is created, so that whoever runs the same
    job under the same name again continues with the attempt that the record has last.

    create: creates the job of an attempt. follow: follows a job until its end, or until the user
    detaches. is_left: returns True once they have, who do not wait for a silent platform.

    An attempt after the first that is refused, as by a limit on the cost of all, is not made.

    Raises CapacityError when no combination that the spec allows got instances.
    """
    # The policy chooses each attempt; this is no retry of one call (sessions/retry_policy.py).
    choices, place, spent = type_combinations(spec), AttemptPlace(), 0.0
    # None where the platform itself restarts jobs, which have another type tried at most.
    policy = None if isinstance(session, RestartsJobs) else spec.retry
    recorded, unused = recorded_attempts(spec, name, session), attempt_names(name, session)
    names: tuple[str, ...] = (next(unused),)
    last: Job | None = None
    while True:
        tried = with_types(spec, choices[place.choice])
        attempt = JobAttempt(spec=tried, names=names, spent=spent)
        cause: str | int | None
        try:
            try:
                made = _job_of(attempt, recorded, session, create)
            except SpecError as error:
                if last is None:
                    raise
                notify(f"job {attempt.name} is not sent: {error.problems[0].what}")
                return last
            for job in made.attempts(notify):
                follow(job)
            last = job
            with with_resume_hint(job.name):
                description = job.description(None if is_left() else notify)
            cause, reason = end_cause(description), str(description.get("FailureReason", ""))
            ended = description.get("TrainingEndTime")
            if _is_retried_there(description, cause):
                cause = None
            spent += _dollars(job, description, cause)
        except CapacityError as error:
            cause, reason, ended = OUT_OF_CAPACITY, error.headline, None
        following = next_place(place, cause, len(choices), policy)
        if following is None and cause == OUT_OF_CAPACITY:
            raise CapacityError(_no_capacity_message(names, reason), code="CapacityError")
        if following is None:
            return job
        place = following
        notify(f"job {attempt.name} {_end_text(cause)}: {reason.partition(chr(10))[0].rstrip('.')}")
        free = next(unused)
        recorded = recorded_attempts(spec, name, session)  # another client may be further: read
        known = recorded[len(names) : len(names) + 1]  # last, as it wrote before it took a name
        names = (*names, *(known or (free,)))
        wait = (policy or _ONCE).pause(place.attempt) if place.is_new else 0
        if known:
            wait = 0 if is_used(names[-1], session) else _rest(wait, ended)
        elif policy:
            _record_attempts(session, names)
        notify(_announcement(place, choices, policy, wait, names[-1]))
        try:
            sleep(wait)
        except KeyboardInterrupt:
            notify(f"job {names[-1]} is not sent: run the same job as {name} again to go on")
            raise


def _job_of(
    attempt: JobAttempt,
    recorded: tuple[str, ...],
    session: PlatformSession,
    create: Callable[[JobAttempt], Job],
) -> Job:
    """Return the job of an attempt, which another client may have created."""
    is_ours = attempt.name in recorded or len(attempt.names) > 1
    if is_ours and is_used(attempt.name, session):
        return Job(attempt.name, session, tracking=attempt.spec.tracking)
    if attempt.name in recorded[:-1]:
        raise CapacityError("its job was not created")
    try:
        return create(attempt)
    except CloudError as error:
        if error.code != "ResourceInUse" or not attempt.spec.retry or not is_ours:
            raise
        return Job(attempt.name, session, tracking=attempt.spec.tracking)


def _is_retried_there(description: TrainingJobDescription, cause: object) -> bool:
    """Return whether the platform has restarted a job after this cause as often as it may."""
    is_its_own = str(description.get("FailureReason", "")).startswith("InternalServerError")
    return cause == HOST_LOST and is_its_own and "RetryStrategy" in description


def _dollars(job: Job, description: TrainingJobDescription, cause: object) -> float:
    """Return what an attempt has cost: at most, if that is unknown."""
    bill = None if cause in (None, OUT_OF_CAPACITY) else job.cost(description)
    if bill is None:
        return 0.0
    known = (each for each in (bill.dollars, bill.max_dollars) if each is not None)
    return next(known, inf)


def recorded_attempts(spec: JobSpec, name: str, session: PlatformSession) -> tuple[str, ...]:
    """Return the names of a job's attempts that are in its record; none for another job's."""
    if spec.retry is None or isinstance(session, RestartsJobs):
        return ()
    record = _record_of(name, session)
    if record is None or record.job != job_file(spec):
        return ()
    return tuple(record.attempts) or (name,)


def _rest(pause: int, ended: datetime | None) -> int:
    """Return the seconds that are left of a pause after an attempt's end."""
    passed = (datetime.now(timezone.utc) - ended).total_seconds() if ended else 0
    return max(0, round(pause - max(0, passed)))


def _record_of(name: str, session: PlatformSession) -> JobRecord | None:
    with contextlib.suppress(JobNotFound):
        return read_record(session, name)
    return None


def _record_attempts(session: PlatformSession, names: tuple[str, ...]) -> None:
    if record := _record_of(names[0], session):
        write_record(session, names[0], replace(record, attempts=names))


def attempt_names(name: str, session: PlatformSession) -> Iterator[str]:
    """Yield the names of a job's attempts, "rings", "rings-2" and so on, but those of other jobs.

    The first is yielded unseen: it is the user's own, and sending it reports a name that was used.
    """
    yield name
    yield from numbered_names(name, lambda each: is_used(each, session))


def detached_warnings(spec: JobSpec, session: PlatformSession) -> Iterator[str]:
    """Yield warnings of what a job misses whose user detaches from it."""
    if any(group.alternatives for group in spec.instance_groups) and not spec.is_local:
        yield (
            "alternatives have no effect without waiting: if there is no capacity for the first "
            "types, the job fails and no other type is tried"
        )
    if spec.retry and not isinstance(session, RestartsJobs):
        yield (
            "retry has no effect without waiting: AWS restarts a job after internal errors only, "
            "and `launcher run` or fit() after the other causes"
        )
    if spec.tracking:
        yield (
            "tracking has no effect on a job that nobody follows: its metrics are written by "
            "`launcher run` without --detach, by fit(), and by job.wait()"
        )


def _no_capacity_message(names: tuple[str, ...], reason: str) -> str:
    tries = "once" if len(names) == 1 else f"{len(names)} times"
    fix = "set alternatives of its groups, or retry on out_of_capacity, or use another region"
    return f"job {names[0]} was tried {tries} and got no instances: {reason}\n  fix: {fix}"


def _end_text(cause: str | int | None) -> str:
    if cause == OUT_OF_CAPACITY:
        return "got no instances"
    return f"ended with {cause_text(cause)}"


def _announcement(
    place: AttemptPlace, choices: list[dict[str, str]], retry: Retry | None, wait: int, name: str
) -> str:
    """Return the words for the attempt that comes next."""
    delay = f", in {readable(wait)}" if wait else ""
    if not place.is_new:
        types = ", ".join(f"{group}: {kind}" for group, kind in choices[place.choice].items())
        return f"trying {types}, choice {place.choice + 1} of {len(choices)}: job {name}"
    total = (retry or _ONCE).attempts
    return f"trying again, attempt {place.attempt} of {total}{delay}: job {name}"


@dataclass(frozen=True, kw_only=True)
class AttemptPlace:
    """The place of an attempt: its number, and that of its combination of types."""

    attempt: int = 1
    choice: int = 0

    @property
    def is_new(self) -> bool:
        """True for the first choice, before which the policy waits."""
        return self.choice == 0


def next_place(
    place: AttemptPlace, cause: str | int | None, choices: int, retry: Retry | None
) -> AttemptPlace | None:
    """Return the place after a job that ended by a cause; None when it is not tried again."""
    if cause == OUT_OF_CAPACITY and place.choice + 1 < choices:
        return replace(place, choice=place.choice + 1)
    if retry is None or not retry.covers(cause) or place.attempt >= retry.attempts:
        return None
    return AttemptPlace(attempt=place.attempt + 1)


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


def with_types(spec: JobSpec, types: Mapping[str, str]) -> JobSpec:
    """Return the spec with these types in its groups, and without alternatives."""
    groups = tuple(
        replace(group, instance_type=types[group.instance_group_name], alternatives=())
        for group in spec.instance_groups
    )
    return spec.replace(instance_groups=groups) if groups else spec
