"""The next attempt after a capacity shortage, as a pure function of the attempts so far."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from launcher.client.spec import CapacityRetry, JobSpec

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobDescription

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
