"""Validation of a whole request: the limits of botocore's model, then the rules between fields.

The model is as recent as the boto3 that sends the request. Each rule takes a request whose values
have the right types, though any may be missing; those of machines and images are in
`machine_violations`. AWS's own messages are quoted where they are public: those of
`go_to_groups_all_or_none` and `is_for_spot_instances`. That names of channels and groups exist and
differ is inferred. Nothing here calls AWS.

Sources: the API pages of Channel, DataSource and StoppingCondition.
"""

from __future__ import annotations

import functools
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from launcher.client.request.validation import machine_violations
from launcher.client.request.validation.api_model_check import (
    WrongType,
    find_violations_of,
)
from launcher.client.request.validation.violations import Violation, constraint_message
from launcher.errors import FieldPath
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from botocore.model import ServiceModel, StructureShape

    from launcher.shared import ChannelFields, LimitFields, TrainingJobRequest


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


_SOURCES = ("S3DataSource", "FileSystemDataSource", "DatasetSource")


def have_one_source(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channels without exactly one source of data."""
    for path, channel in _channels(request):
        source = channel.get("DataSource", {})
        named = [name for name in _SOURCES if name in source]
        if "DataSource" in channel and len(named) != 1:
            here = (*path, "DataSource")
            yield Violation(
                path=here,
                what=f"the channel has {' and '.join(named) or 'no source of data'}",
                fix=f"write one of {', '.join(_SOURCES)}",
                aws_message=constraint_message(here, source, "Member must have exactly one source"),
            )


def have_different_names(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channel names that are used twice."""
    seen = Counter[str]()
    for path, channel in _channels(request):
        name = channel.get("ChannelName", "")
        seen[name] += 1
        if seen[name] == 2:
            yield Violation(
                path=(*path, "ChannelName"),
                what=f'two channels are called "{name}"',
                fix="give one of them another name",
                aws_message=f"Duplicate channel name: {name}",
            )


def go_to_groups_all_or_none(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channels without groups if others name groups.

    A file system's channel cannot name groups, so it cannot be combined with channels that do.
    """
    routed = {
        channel.get("ChannelName", ""): (path, bool(_groups_of(channel)))
        for path, channel in _channels(request)
    }
    sources = {c.get("ChannelName", ""): c.get("DataSource", {}) for _, c in _channels(request)}
    some = [name for name, (_, is_routed) in routed.items() if is_routed]
    others = {name: path for name, (path, is_routed) in routed.items() if not is_routed}
    if not some or not others:
        return
    message = (
        f"Some channels have assigned instance groups: [{', '.join(some)}] while others not: "
        f"[{', '.join(others)}]"
    )
    for name, path in others.items():
        yield Violation(
            path=(*path, "DataSource"),
            what=f'the channel "{name}" names no instance groups, and "{some[0]}" does',
            fix="remove InstanceGroupNames of all channels: a file system has none"
            if "FileSystemDataSource" in sources[name]
            else "write InstanceGroupNames in all channels or in none",
            aws_message=message,
        )


def go_to_groups_that_exist(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find channels routed to groups that are not in the job."""
    groups = request.get("ResourceConfig", {}).get("InstanceGroups", ())
    known = [group.get("InstanceGroupName", "") for group in groups]
    for path, channel in _channels(request):
        for index, name in enumerate(_groups_of(channel)):
            if name in known:
                continue
            here = (*path, "DataSource", "S3DataSource", "InstanceGroupNames", index)
            yield Violation(
                path=here,
                what=f'the channel goes to group "{name}", which is not in the job',
                about=(("ResourceConfig", "InstanceGroups"),),
                fix=choice_fix(name, known) if known else "remove it: the job has no groups",
                aws_message=f"Instance group {name} of channel {channel.get('ChannelName')} is not "
                f"in InstanceGroups: [{', '.join(known)}]",
            )


def reach_file_systems_in_a_vpc(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find file systems in a job without a VpcConfig."""
    for path, channel in _channels(request):
        here = (*path, "DataSource", "FileSystemDataSource")
        if here[-1] in channel.get("DataSource", {}) and "VpcConfig" not in request:
            yield Violation(
                path=here,
                what="a file system is in a VPC, but the job is in none",
                fix="write VpcConfig from which it can be reached",
                aws_message="VpcConfig must be specified when a channel has a FileSystemDataSource",
            )


def _channels(request: TrainingJobRequest) -> Iterator[tuple[FieldPath, ChannelFields]]:
    for index, channel in enumerate(request.get("InputDataConfig", ())):
        yield ("InputDataConfig", index), channel


def _groups_of(channel: ChannelFields) -> tuple[str, ...]:
    source = channel.get("DataSource", {}).get("S3DataSource", {})
    return tuple(source.get("InstanceGroupNames", ()))


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
    have_one_source,
    have_different_names,
    go_to_groups_all_or_none,
    go_to_groups_that_exist,
    reach_file_systems_in_a_vpc,
    ends_within_a_month,
    is_for_spot_instances,
    is_given_for_spot_instances,
    lasts_as_long_as_the_job,
)
