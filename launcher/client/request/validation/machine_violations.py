"""Rules for the machines of a request, and for the image that they run.

Source: the API pages of ResourceConfig, InstancePreference and AlgorithmSpecification, and AWS's
page on heterogeneous clusters; the first message of `are_given_in_one_way` is AWS's own. The
rule that group names differ is inferred.
What a job on machines requires and a serverless one excludes: the model made these parts optional
only when it added ServerlessJobConfig; the excluded ones are those of Terraform's
aws_sagemaker_training_job.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from launcher.client import catalogue
from launcher.client.request.validation.api_model_check import missing
from launcher.client.request.validation.violations import Violation, constraint_message
from launcher.errors import FieldPath

if TYPE_CHECKING:
    from launcher.shared import GroupFields, PreferenceFields, ResourceFields, TrainingJobRequest


_RESOURCES: Final = "ResourceConfig"
_COUNT: Final = "InstanceCount"
_TYPE: Final = "InstanceType"
_GROUPS: Final = "InstanceGroups"
_PREFERENCES: Final = "InstancePreferences"
_KEEP: Final = "KeepAlivePeriodInSeconds"
_SPOT: Final = "EnableManagedSpotTraining"
_OWN_WORDS = "InstanceType or InstanceCount cannot be specified with InstanceGroups"
#: Families with NVMe disks of their own, for types that are newer than the catalogue: those with a
#: d among the letters after the number, and the families listed here.
_NVME = re.compile(r"ml\.([a-z]+\d+[a-z]*d[a-z]*|g[567]e?|p[56][a-z]*(-\w+)?|trn\d+n?)\..+")
_FRAMEWORK = re.compile(r".*/(pytorch|tensorflow)-training:(\d+)\.(\d+).*")
_FIRST_WITH_GROUPS = {"pytorch": (1, 10), "tensorflow": (2, 6)}


def are_given_in_one_way(request: TrainingJobRequest) -> Iterator[Violation]:
    """Require either a type and a count, or groups; preferences have a rule of their own."""
    resources = request.get(_RESOURCES)
    if resources is None or SERVERLESS in request:
        return
    if _GROUPS in resources:
        for name in (_TYPE, _COUNT):
            if name in resources:
                yield _conflict((_RESOURCES, name), resources.get(name), _GROUPS, _OWN_WORDS)
    elif _PREFERENCES not in resources:
        for name in (_TYPE, _COUNT):
            if name not in resources:
                yield missing((_RESOURCES, name), f"write {name}, or {_GROUPS}")


def have_hosts(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find a count of 0 and an empty list of groups, both of which the model allows."""
    resources = request.get(_RESOURCES, {})
    counted: list[tuple[FieldPath, ResourceFields | GroupFields | PreferenceFields]] = [
        ((_RESOURCES,), resources),
        *(((_RESOURCES, _GROUPS, i), each) for i, each in enumerate(resources.get(_GROUPS, ()))),
        *(
            ((_RESOURCES, _PREFERENCES, i), each)
            for i, each in enumerate(resources.get(_PREFERENCES, ()))
        ),
    ]
    for path, item in counted:
        if item.get(_COUNT, 1) == 0:
            yield _too_few((*path, _COUNT), 0, "value", f"{_COUNT} is 0")
    if _GROUPS in resources and not resources[_GROUPS]:
        yield _too_few((_RESOURCES, _GROUPS), [], "length", "there are no groups")


def have_groups_of_different_names(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find group names that are used twice."""
    seen = Counter[str]()
    for index, group in enumerate(request.get(_RESOURCES, {}).get(_GROUPS, ())):
        name = group.get("InstanceGroupName", "")
        seen[name] += 1
        if seen[name] == 2:
            yield Violation(
                path=(_RESOURCES, _GROUPS, index, "InstanceGroupName"),
                what=f'two groups are called "{name}"',
                fix="give one of them another name",
                aws_message=f"Duplicate instance group name: {name}",
            )


def are_preferred_in_one_way(request: TrainingJobRequest) -> Iterator[Violation]:
    """Check that preferences differ, exclude other choices, and count hosts in one place."""
    resources = request.get(_RESOURCES, {})
    preferences = resources.get(_PREFERENCES)
    if preferences is None:
        return
    for name in (_TYPE, _GROUPS, "InstancePlacementConfig"):
        if name in resources:
            yield _conflict((_RESOURCES, name), resources.get(name), _PREFERENCES)
    if request.get(_SPOT):
        yield _conflict((_SPOT,), True, _PREFERENCES)
    counts = [_COUNT in preference for preference in preferences]
    if any(counts) != all(counts) or any(counts) == (_COUNT in resources):
        path = (_RESOURCES, _PREFERENCES)
        constraint = f"Member must have {_COUNT} in all preferences or in {_RESOURCES}"
        yield Violation(
            path=path,
            what="the number of instances must be in all preferences, or once for all of them",
            fix="give every preference a count, or the job one",
            aws_message=constraint_message(path, preferences, constraint),
        )
    types = [preference.get(_TYPE) for preference in preferences]
    for index, twice in enumerate(types):
        if twice in types[:index]:
            place = (_RESOURCES, _PREFERENCES, index, _TYPE)
            yield Violation(
                path=place,
                what=f"{twice} is preferred twice",
                fix="remove one of them",
                aws_message=constraint_message(place, twice, "Member must be unique in the list"),
            )


def have_no_fields_of_answers(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find fields that only AWS's responses have."""
    for name in ("SelectedInstanceType", "SelectedInstanceCount"):
        if (value := request.get(_RESOURCES, {}).get(name)) is not None:
            path = (_RESOURCES, name)
            yield Violation(
                path=path,
                what=f"{name} is part of AWS's answers, not of requests",
                fix=f"remove {name}",
                aws_message=constraint_message(path, value, "Member must be null"),
            )


def encrypt_no_local_storage(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find a volume key for types with disks of their own, which it cannot encrypt."""
    resources = request.get(_RESOURCES, {})
    local = [name for name in _types(resources) if _has_own_disks(name)]
    if "VolumeKmsKeyId" in resources and local:
        path = (_RESOURCES, "VolumeKmsKeyId")
        constraint = f"Member must be null for instance types with local storage: [{local[0]}]"
        yield Violation(
            path=path,
            about=((_RESOURCES, _TYPE), (_RESOURCES, _GROUPS)),
            what=f"{local[0]} has disks of its own, which no KMS key of yours can encrypt",
            fix="remove VolumeKmsKeyId (its hardware encrypts them), or use a type without NVMe",
            aws_message=constraint_message(path, resources["VolumeKmsKeyId"], constraint),
        )


def _has_own_disks(instance_type: str) -> bool:
    known = catalogue.find(instance_type)
    if known is None or known.has_local_storage is None:
        return bool(_NVME.fullmatch(instance_type))
    return known.has_local_storage


def keep_warm_pools_to_one_type(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find warm pools of groups; warn about warm pools of spot instances."""
    resources = request.get(_RESOURCES, {})
    if not resources.get(_KEEP):
        return
    if _GROUPS in resources:
        found = _conflict((_RESOURCES, _KEEP), resources[_KEEP], _GROUPS)
        fix = f"remove {_KEEP}: hosts are kept only of a job with {_TYPE}"
        yield replace(found, fix=fix)
    if request.get(_SPOT):
        yield Violation(
            path=(_RESOURCES, _KEEP),
            what="AWS is not documented to keep spot instances in a warm pool",
            fix=f"remove {_KEEP} or {_SPOT}",
            aws_message=f"{_KEEP} is not supported when {_SPOT} is set to true",
            is_warning=True,
        )


def have_an_image(request: TrainingJobRequest) -> Iterator[Violation]:
    """Require exactly one of TrainingImage and AlgorithmName."""
    algorithm = request.get("AlgorithmSpecification")
    if algorithm is None or SERVERLESS in request:
        return
    path = ("AlgorithmSpecification", "TrainingImage")
    if "TrainingImage" in algorithm and "AlgorithmName" in algorithm:
        constraint = "Member must not be set together with AlgorithmName"
        yield Violation(
            path=path,
            what="both TrainingImage and AlgorithmName are given",
            fix="remove one of them",
            aws_message=constraint_message(path, algorithm["TrainingImage"], constraint),
        )
    elif "TrainingImage" not in algorithm and "AlgorithmName" not in algorithm:
        yield missing(path, "write TrainingImage, or AlgorithmName")


def have_an_image_that_knows_groups(request: TrainingJobRequest) -> Iterator[Violation]:
    """Warn about AWS's own images too old for groups; other images are not checked."""
    image = request.get("AlgorithmSpecification", {}).get("TrainingImage", "")
    named = _FRAMEWORK.fullmatch(image)
    if not named or _GROUPS not in request.get(_RESOURCES, {}):
        return
    framework, first = named[1], _FIRST_WITH_GROUPS[named[1]]
    if (int(named[2]), int(named[3])) < first:
        path = ("AlgorithmSpecification", "TrainingImage")
        supported = f"{framework} {first[0]}.{first[1]}"
        yield Violation(
            path=path,
            what=f"AWS supports instance groups from {supported} on, and the image is older",
            fix="use a newer image",
            aws_message=constraint_message(path, image, f"Member must be {supported} or newer"),
            is_warning=True,
        )


def _types(resources: ResourceFields) -> Iterator[str]:
    items: list[ResourceFields | GroupFields | PreferenceFields] = [
        resources,
        *resources.get(_GROUPS, ()),
        *resources.get(_PREFERENCES, ()),
    ]
    for item in items:
        if _TYPE in item:
            yield item[_TYPE]


def _too_few(path: FieldPath, value: object, word: str, what: str) -> Violation:
    constraint = f"Member must have {word} greater than or equal to 1"
    message = constraint_message(path, value, constraint)
    return Violation(path=path, what=what, fix="use 1 or more", aws_message=message)


def _conflict(path: FieldPath, value: object, other: str, message: str | None = None) -> Violation:
    constraint = f"Member must not be set together with {other}"
    return Violation(
        path=path,
        what=f"{path[-1]} is given together with {other}",
        fix=f"remove {path[-1]} or {other}",
        aws_message=message or constraint_message(path, value, constraint),
    )


SERVERLESS = "ServerlessJobConfig"
_PARTS = ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition")
_EXCLUDED = (
    "Environment",
    "EnableManagedSpotTraining",
    "RetryStrategy",
    "CheckpointConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "ExperimentConfig",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "TensorBoardOutputConfig",
)


def needs_its_parts(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find missing parts that only a serverless job may omit."""
    if SERVERLESS in request:
        return
    for part in _PARTS:
        if part not in request:
            yield missing((part,))


def excludes_what_it_chooses(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find fields about machines in a serverless job, which has none."""
    if SERVERLESS not in request:
        return
    for name in _EXCLUDED:
        if value := request.get(name):
            yield Violation(
                path=(name,),
                what=f"{name} is given for a serverless job",
                fix=f"remove {name}, or {SERVERLESS}",
                aws_message=constraint_message(
                    (name,), value, f"Member must not be set with {SERVERLESS}"
                ),
            )
