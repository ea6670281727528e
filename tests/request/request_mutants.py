"""Requests that break one rule each, and requests beside them that do not; as data.

Whoever judges requests (our validator, the local endpoint) is held against the same ones. To add a
rule's: a line in MUTANTS and one in ACCEPTED. Limits of the model have theirs in model_mutants.py.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from launcher.client.request import input_shape

#: Takes a field out of a request.
GONE = object()
#: Fields of ResourceConfig that boto3 1.42 does not know; Launcher writes none of them.
NEWER_FIELDS = {"InstancePreferences", "SelectedInstanceType", "SelectedInstanceCount"}

ROLE = "arn:aws:iam::111122223333:role/Training"
IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:1"
DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
S3 = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://my-bucket/data"}}
EFS = {
    "FileSystemDataSource": {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemAccessMode": "ro",
        "FileSystemType": "EFS",
        "DirectoryPath": "/data",
    }
}
VPC = {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}
MODEL = (
    "arn:aws:sagemaker:us-east-1:aws:hub-content/SageMakerPublicHub/Model/meta-textgeneration/1.0.0"
)

ONE_TYPE: Mapping[str, Any] = {
    "TrainingJobName": "job-1",
    "AlgorithmSpecification": {"TrainingImage": IMAGE, "TrainingInputMode": "File"},
    "RoleArn": ROLE,
    "InputDataConfig": [
        {"ChannelName": "a", "DataSource": S3},
        {"ChannelName": "b", "DataSource": S3},
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://my-bucket/output"},
    "ResourceConfig": {
        "InstanceType": "ml.c5.xlarge",
        "InstanceCount": 1,
        "VolumeSizeInGB": 30,
    },
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
}
SPOT: Mapping[str, Any] = {
    **ONE_TYPE,
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
}


def _routed(name: str, *groups: str) -> dict[str, Any]:
    source = {**S3["S3DataSource"], "InstanceGroupNames": list(groups)}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


GROUPS: Mapping[str, Any] = {
    **ONE_TYPE,
    "InputDataConfig": [_routed("a", "data"), _routed("b", "data", "train")],
    "ResourceConfig": {
        "InstanceGroups": [
            {"InstanceGroupName": "data", "InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
            {"InstanceGroupName": "train", "InstanceType": "ml.p3.8xlarge", "InstanceCount": 1},
        ],
        "VolumeSizeInGB": 30,
    },
}
#: Groups, and channels for all of them.
UNROUTED: Mapping[str, Any] = {**GROUPS, "InputDataConfig": ONE_TYPE["InputDataConfig"]}
PREFERENCES: Mapping[str, Any] = {
    **ONE_TYPE,
    "ResourceConfig": {
        "InstancePreferences": [
            {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1},
            {"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 2},
        ],
    },
}
SERVERLESS: Mapping[str, Any] = {
    "TrainingJobName": "job-1",
    "RoleArn": ROLE,
    "OutputDataConfig": {"S3OutputPath": "s3://my-bucket/output"},
    "ServerlessJobConfig": {"BaseModelArn": MODEL, "JobType": "FineTuning"},
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A legal request, and what is changed in it.

    rule: the function of launcher.client.request.validation.rules that is asked;
    changes: values by path ("ResourceConfig.InstanceGroups.0.InstanceCount"), GONE takes one out;
    path: where a broken rule shows, dotted; None for a request that is still legal.
    """

    name: str
    rule: str = ""
    base: Mapping[str, Any]
    changes: Mapping[str, Any]
    path: str | None = None
    is_warning: bool = False

    @property
    def request(self) -> dict[str, Any]:
        changed = json.loads(json.dumps(self.base))  # what is shared is written twice
        for path, value in self.changes.items():
            *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
            holder: Any = changed
            for part in way:
                holder = holder[part]
            if value is GONE:
                del holder[last]
            else:
                holder[last] = copy.deepcopy(value)
        return changed

    def skip_if_newer(self) -> None:
        """Skip the test where the installed boto3 is too old to send the request."""
        known = input_shape().members["ResourceConfig"].members
        newer = (NEWER_FIELDS & set(self.request.get("ResourceConfig", ()))) - set(known)
        if newer:
            pytest.skip(f"this boto3 cannot send {', '.join(newer)}")


def _breaks(
    name: str,
    base: Mapping[str, Any],
    changes: Mapping[str, Any],
    path: str | None = None,
    *,
    is_warning: bool = False,
) -> Case:
    """Break a rule, which shows at the first change where no path is given."""
    shown = path or re.sub(r"\.(\d+)", r"[\1]", next(iter(changes)))
    return Case(name=name, base=base, path=shown, changes=changes, is_warning=is_warning)


def _keeps(name: str, base: Mapping[str, Any], changes: Mapping[str, Any]) -> Case:
    return Case(name=name, base=base, changes=changes)


def _cases(rows: Mapping[str, Sequence[Case]]) -> tuple[Case, ...]:
    """Return the cases of all rules, which are given by rule."""
    return tuple(replace(case, rule=rule) for rule, cases in rows.items() for case in cases)


_IMAGE = "AlgorithmSpecification.TrainingImage"
_TYPE, _COUNT = "ResourceConfig.InstanceType", "ResourceConfig.InstanceCount"
_GROUP, _PREFERENCES = "ResourceConfig.InstanceGroups", "ResourceConfig.InstancePreferences"
_VOLUME_KEY = "ResourceConfig.VolumeKmsKeyId"
_KEEP_ALIVE = "ResourceConfig.KeepAlivePeriodInSeconds"
_IS_SPOT = "EnableManagedSpotTraining"
_RUN, _WAIT = "StoppingCondition.MaxRuntimeInSeconds", "StoppingCondition.MaxWaitTimeInSeconds"
_SOURCE, _SECOND_SOURCE = "InputDataConfig[1].DataSource", "InputDataConfig.1.DataSource"

_BROKEN: Mapping[str, Sequence[Case]] = {
    "needs_its_parts": [
        _breaks(f"without {part}", ONE_TYPE, {part: GONE})
        for part in ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition")
    ],
    "excludes_what_it_chooses": [
        *(
            _breaks(f"serverless with {name}", SERVERLESS, {name: value})
            for name, value in {
                "Environment": {"A": "1"},
                "RetryStrategy": {"MaximumRetryAttempts": 1},
                "CheckpointConfig": {"S3Uri": "s3://my-bucket/checkpoints"},
                "DebugHookConfig": {"S3OutputPath": "s3://my-bucket/debug"},
                "ExperimentConfig": {"ExperimentName": "e"},
                "ProfilerConfig": {"DisableProfiler": True},
                "TensorBoardOutputConfig": {"S3OutputPath": "s3://my-bucket/board"},
            }.items()
        ),
        _breaks(
            "serverless with spot instances",
            SERVERLESS,
            {_IS_SPOT: True, "StoppingCondition": SPOT["StoppingCondition"]},
        ),
    ],
    "are_given_in_one_way": [
        _breaks("groups and a type", GROUPS, {_TYPE: "ml.c5.xlarge"}),
        _breaks("groups and a count", GROUPS, {_COUNT: 1}),
        _breaks("a type without a count", ONE_TYPE, {_COUNT: GONE}),
        _breaks("a count without a type", ONE_TYPE, {_TYPE: GONE}),
    ],
    "have_hosts": [
        _breaks("no hosts", ONE_TYPE, {_COUNT: 0}),
        _breaks("a group without hosts", GROUPS, {f"{_GROUP}.1.InstanceCount": 0}),
        _breaks("no groups", UNROUTED, {_GROUP: []}),
        _breaks("a preference without hosts", PREFERENCES, {f"{_PREFERENCES}.1.InstanceCount": 0}),
    ],
    "have_groups_of_different_names": [
        _breaks("two groups of a name", UNROUTED, {f"{_GROUP}.1.InstanceGroupName": "data"})
    ],
    "are_preferred_in_one_way": [
        _breaks("preferences and a type", PREFERENCES, {_TYPE: "ml.g5.xlarge"}),
        _breaks(
            "preferences and groups",
            {**PREFERENCES, "InputDataConfig": []},
            {
                "InputDataConfig": GROUPS["InputDataConfig"],
                _GROUP: GROUPS["ResourceConfig"]["InstanceGroups"],
            },
            _GROUP,
        ),
        _breaks(
            "preferences and a placement",
            PREFERENCES,
            {"ResourceConfig.InstancePlacementConfig": {"EnableMultipleJobs": True}},
        ),
        _breaks("preferences and spot instances", PREFERENCES, {_IS_SPOT: True, _WAIT: 7200}),
        _breaks(
            "a count in some preferences",
            PREFERENCES,
            {f"{_PREFERENCES}.1.InstanceCount": GONE},
            _PREFERENCES,
        ),
        _breaks("a count in preferences and in the whole", PREFERENCES, {_COUNT: 1}, _PREFERENCES),
        _breaks(
            "a type that is preferred twice",
            PREFERENCES,
            {f"{_PREFERENCES}.1.InstanceType": "ml.g5.xlarge"},
        ),
    ],
    "have_no_fields_of_answers": [
        _breaks(
            "the type that AWS selected",
            ONE_TYPE,
            {"ResourceConfig.SelectedInstanceType": "ml.c5.xlarge"},
        ),
        _breaks(
            "the count that AWS selected", ONE_TYPE, {"ResourceConfig.SelectedInstanceCount": 1}
        ),
    ],
    "encrypt_no_local_storage": [
        *(
            _breaks(f"a key for {name}", ONE_TYPE, {_VOLUME_KEY: KEY, _TYPE: name})
            for name in ("ml.g4dn.xlarge", "ml.g5.xlarge", "ml.p4d.24xlarge", "ml.r5d.large")
        ),
        _breaks(
            "a key for a group with local disks",
            GROUPS,
            {_VOLUME_KEY: KEY, f"{_GROUP}.1.InstanceType": "ml.p5.48xlarge"},
        ),
    ],
    "keep_warm_pools_to_one_type": [
        _breaks("a warm pool of groups", GROUPS, {_KEEP_ALIVE: 600}),
        _breaks("a warm pool of spot instances", SPOT, {_KEEP_ALIVE: 600}, is_warning=True),
    ],
    "have_an_image": [
        _breaks(
            "an image and an algorithm",
            ONE_TYPE,
            {"AlgorithmSpecification.AlgorithmName": "mine"},
            _IMAGE,
        ),
        _breaks("neither image nor algorithm", ONE_TYPE, {_IMAGE: GONE}),
    ],
    "have_an_image_that_knows_groups": [
        _breaks(f"groups of {image}", GROUPS, {_IMAGE: f"{DLC}/{image}"}, is_warning=True)
        for image in ("pytorch-training:1.9.1-gpu-py38", "tensorflow-training:2.5.1-cpu-py37")
    ],
    "have_one_source": [
        _breaks("a channel of nothing", ONE_TYPE, {_SECOND_SOURCE: {}}),
        _breaks(
            "a channel of two sources",
            {**ONE_TYPE, "VpcConfig": VPC},
            {_SECOND_SOURCE: {**S3, **EFS}},
        ),
    ],
    "have_different_names": [
        _breaks("two channels of a name", ONE_TYPE, {"InputDataConfig.1.ChannelName": "a"})
    ],
    "go_to_groups_all_or_none": [
        _breaks("some channels name groups", GROUPS, {_SECOND_SOURCE: S3}),
        _breaks(
            "a file system beside channels that name groups",
            {**GROUPS, "VpcConfig": VPC},
            {_SECOND_SOURCE: EFS},
        ),
    ],
    "go_to_groups_that_exist": [
        _breaks(
            "a channel for no group of the job",
            GROUPS,
            {"InputDataConfig.1": _routed("b", "dta")},
            f"{_SOURCE}.S3DataSource.InstanceGroupNames[0]",
        ),
        _breaks(
            "channels for groups of a job without",
            ONE_TYPE,
            {"InputDataConfig": [_routed("a", "data")]},
            "InputDataConfig[0].DataSource.S3DataSource.InstanceGroupNames[0]",
        ),
    ],
    "reach_file_systems_in_a_vpc": [
        _breaks(
            "a file system without a network",
            ONE_TYPE,
            {_SECOND_SOURCE: EFS},
            f"{_SOURCE}.FileSystemDataSource",
        )
    ],
    "ends_within_a_month": [_breaks("28 days and a second", ONE_TYPE, {_RUN: 2419201})],
    "is_for_spot_instances": [
        _breaks("waiting for no spot instance", ONE_TYPE, {_WAIT: 7200}),
        _breaks("waiting, and spot is off", SPOT, {_IS_SPOT: False}, _WAIT),
    ],
    "is_given_for_spot_instances": [_breaks("spot, not waiting", SPOT, {_WAIT: GONE}, _IS_SPOT)],
    "lasts_as_long_as_the_job": [
        _breaks("a wait too short", SPOT, {_WAIT: 3599}),
        _breaks("a wait shorter than AWS's own limit", SPOT, {_RUN: GONE}, _WAIT),
    ],
}

_KEPT: Mapping[str, Sequence[Case]] = {
    "needs_its_parts": [_keeps("serverless", SERVERLESS, {}), _keeps("one type", ONE_TYPE, {})],
    "excludes_what_it_chooses": [
        _keeps("serverless with what is off", SERVERLESS, {_IS_SPOT: False, "Environment": {}})
    ],
    "are_given_in_one_way": [_keeps("groups", GROUPS, {})],
    "have_hosts": [_keeps("two hosts", ONE_TYPE, {_COUNT: 2})],
    "have_groups_of_different_names": [
        _keeps("two groups of a type", GROUPS, {f"{_GROUP}.0.InstanceType": "ml.p3.8xlarge"})
    ],
    "are_preferred_in_one_way": [
        _keeps("counts in preferences", PREFERENCES, {}),
        _keeps(
            "one count for all preferences",
            PREFERENCES,
            {
                _COUNT: 1,
                f"{_PREFERENCES}.0.InstanceCount": GONE,
                f"{_PREFERENCES}.1.InstanceCount": GONE,
            },
        ),
    ],
    "have_no_fields_of_answers": [_keeps("nothing selected", ONE_TYPE, {})],
    "encrypt_no_local_storage": [
        _keeps("a key for volumes", GROUPS, {_VOLUME_KEY: KEY}),
        _keeps("no key for local disks", ONE_TYPE, {_TYPE: "ml.g5.xlarge"}),
    ],
    "keep_warm_pools_to_one_type": [
        _keeps("a warm pool", ONE_TYPE, {_KEEP_ALIVE: 600}),
        _keeps("no warm pool of groups", GROUPS, {_KEEP_ALIVE: 0}),
    ],
    "have_an_image": [
        _keeps(
            "an algorithm", ONE_TYPE, {_IMAGE: GONE, "AlgorithmSpecification.AlgorithmName": "mine"}
        )
    ],
    "have_an_image_that_knows_groups": [
        *(
            _keeps(f"groups of {image}", GROUPS, {_IMAGE: f"{DLC}/{image}"})
            for image in (
                "pytorch-training:1.10.0-gpu-py38",
                "pytorch-training:2.2.0-gpu-py310",
                "tensorflow-training:2.6.0-gpu-py38",
            )
        ),
        _keeps(
            "an old image of one type", ONE_TYPE, {_IMAGE: f"{DLC}/pytorch-training:1.9.1-gpu-py38"}
        ),
    ],
    "have_one_source": [_keeps("a source each", ONE_TYPE, {})],
    "have_different_names": [_keeps("no channels", ONE_TYPE, {"InputDataConfig": GONE})],
    "go_to_groups_all_or_none": [
        _keeps("no channel names groups", GROUPS, {"InputDataConfig": ONE_TYPE["InputDataConfig"]}),
        _keeps("a list of no groups is none", ONE_TYPE, {"InputDataConfig.0": _routed("a")}),
    ],
    "go_to_groups_that_exist": [_keeps("groups of the job", GROUPS, {})],
    "reach_file_systems_in_a_vpc": [
        _keeps("a file system in a network", ONE_TYPE, {_SECOND_SOURCE: EFS, "VpcConfig": VPC})
    ],
    "ends_within_a_month": [_keeps("28 days", ONE_TYPE, {_RUN: 2419200})],
    "is_for_spot_instances": [_keeps("waiting for spot instances", SPOT, {})],
    "is_given_for_spot_instances": [_keeps("spot is off", ONE_TYPE, {_IS_SPOT: False})],
    "lasts_as_long_as_the_job": [_keeps("no time to wait", SPOT, {_WAIT: 3600})],
}
MUTANTS, ACCEPTED = _cases(_BROKEN), _cases(_KEPT)

#: Eleven violations in one request, of every kind that the model has.
ELEVEN = Case(
    name="eleven violations",
    base=ONE_TYPE,
    changes={
        "TrainingJobName": "my_job" * 11,  # too long, and underscores
        "RoleArn": "arn:aws:iam::1111:role/Training",
        "AlgorithmSpecification.TrainingImage": "i" * 300,
        "AlgorithmSpecification.TrainingInputMode": "Fast",
        "InputDataConfig.0.DataSource.S3DataSource.S3Uri": "/data",
        "InputDataConfig.0.CompressionType": "Zip",
        "ResourceConfig.KeepAlivePeriodInSeconds": 9_999_999,
        "HyperParameters": {f"p{index}": "9" * (9999 if index == 0 else 1) for index in range(300)},
        "RetryStrategy": {},
    },
)
