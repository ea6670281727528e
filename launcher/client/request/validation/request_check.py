"""Validation of a whole request: the limits of botocore's model, then the rules between fields.

The model is as recent as the boto3 that sends the request. Each rule takes a request whose values
have the right types, though any may be missing. AWS's own messages are quoted where they are
public. Sources: the API page of StoppingCondition; the message of `is_for_spot_instances` is AWS's
own. Nothing here calls AWS.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from launcher.client.request.validation import channel_violations, machine_violations
from launcher.client.request.validation.api_model_check import WrongType, find_violations_of
from launcher.client.request.validation.violations import Violation, constraint_message

if TYPE_CHECKING:
    from botocore.model import ServiceModel, StructureShape

    from launcher.shared import LimitFields, TrainingJobRequest


@functools.cache
def service_model() -> ServiceModel:
    """Return the botocore.model.ServiceModel; it is read once, which takes 0.1 seconds.

    botocore's own loader finds it, so models that a user added below ~/.aws/models are used.
    """
    from botocore.loaders import create_loader
    from botocore.model import ServiceModel

    with _no_garbage_collection():
        description = create_loader().load_service_model("sagemaker", "service-2")
    return ServiceModel(description, "sagemaker")


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect no garbage in the block: there is none, and looking takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def input_shape() -> StructureShape:
    """Return the shape (botocore.model.StructureShape) of a CreateTrainingJob request."""
    return service_model().operation_model("CreateTrainingJob").input_shape


#: The parts of a request whose members the rules read.
_OF_RULES = ("AlgorithmSpecification", "InputDataConfig", "ResourceConfig", "StoppingCondition")


def find_violations(request: TrainingJobRequest) -> tuple[Violation, ...]:
    """Return all errors and warnings about a CreateTrainingJob request.

    The rules between fields are checked only if the values that they read have the right type.
    """
    of_the_model = tuple(find_violations_of(input_shape(), request))
    wrong = [found.path for found in of_the_model if isinstance(found, WrongType)]
    if any(not path or path[0] in _OF_RULES for path in wrong):
        return of_the_model
    return of_the_model + tuple(found for rule in RULES for found in rule(request))


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


Rule = Callable[["TrainingJobRequest"], Iterator[Violation]]

RULES: tuple[Rule, ...] = (
    machine_violations.needs_its_parts,
    machine_violations.excludes_what_it_chooses,
    machine_violations.are_given_in_one_way,
    machine_violations.have_hosts,
    machine_violations.have_groups_of_different_names,
    machine_violations.are_preferred_in_one_way,
    machine_violations.have_no_fields_of_answers,
    machine_violations.encrypt_no_local_storage,
    machine_violations.keep_warm_pools_to_one_type,
    machine_violations.have_an_image,
    machine_violations.have_an_image_that_knows_groups,
    channel_violations.have_one_source,
    channel_violations.have_different_names,
    channel_violations.go_to_groups_all_or_none,
    channel_violations.go_to_groups_that_exist,
    channel_violations.reach_file_systems_in_a_vpc,
    ends_within_a_month,
    is_for_spot_instances,
    is_given_for_spot_instances,
    lasts_as_long_as_the_job,
)
