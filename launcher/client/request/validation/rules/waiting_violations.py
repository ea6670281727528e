"""Rules for a job's maximum run and wait times, and for spot instances.

Source: the API page of StoppingCondition. The message of `is_for_spot_instances` is AWS's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.request.validation.violations import Violation, constraint_message

if TYPE_CHECKING:
    from launcher.shared import LimitFields, TrainingJobRequest

_RUN = ("StoppingCondition", "MaxRuntimeInSeconds")
_WAIT = ("StoppingCondition", "MaxWaitTimeInSeconds")
_SPOT = "EnableManagedSpotTraining"
#: 28 days, and AWS's default if the request sets no limit (1 day).
_MOST, _DEFAULT_RUN = 28 * 24 * 60 * 60, 24 * 60 * 60


def ends_within_a_month(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find a maximum run time above 28 days."""
    run = _limits(request).get("MaxRuntimeInSeconds", 0)
    if run > _MOST:
        constraint = f"Member must have value less than or equal to {_MOST}"
        yield Violation(
            path=_RUN,
            what=f"MaxRuntimeInSeconds is {run}, more than 28 days",
            fix=f"use {_MOST} at most",
            aws_message=constraint_message(_RUN, run, constraint),
        )


def is_for_spot_instances(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find a maximum wait time in a job without spot instances."""
    if _WAIT[-1] in _limits(request) and not request.get(_SPOT):
        yield Violation(
            path=_WAIT,
            what="MaxWaitTimeInSeconds is given, but the job uses no spot instances",
            fix=f"remove it, or set {_SPOT} to true",
            aws_message="Invalid MaxWaitTimeInSeconds. It is only supported when "
            "EnableManagedSpotTraining is set to true",
        )


def is_given_for_spot_instances(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find spot instances without a maximum wait time."""
    if request.get(_SPOT) and _WAIT[-1] not in _limits(request):
        run = _limits(request).get(_RUN[-1], _DEFAULT_RUN)
        yield Violation(
            path=(_SPOT,),
            what="spot instances without MaxWaitTimeInSeconds",
            fix=f"write {_WAIT[-1]}: seconds from creation to end, {_RUN[-1]} ({run}) or more",
            aws_message="MaxWaitTimeInSeconds must be specified when EnableManagedSpotTraining is "
            "set to true",
        )


def lasts_as_long_as_the_job(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find a maximum wait time below the maximum run time."""
    limits = _limits(request)
    run = limits.get("MaxRuntimeInSeconds", _DEFAULT_RUN)
    wait = limits.get("MaxWaitTimeInSeconds", run)
    if wait < run and request.get(_SPOT):
        constraint = f"Member must have value greater than or equal to MaxRuntimeInSeconds, {run}"
        yield Violation(
            path=_WAIT,
            what=f"MaxWaitTimeInSeconds ({wait}) is less than MaxRuntimeInSeconds ({run})",
            fix="the wait includes the running time: use MaxRuntimeInSeconds or more",
            aws_message=constraint_message(_WAIT, wait, constraint),
        )


def _limits(request: TrainingJobRequest) -> LimitFields:
    return request.get("StoppingCondition", {})
