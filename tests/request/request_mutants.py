"""Requests that break one rule each, and requests beside them that do not; as data.

Whoever judges requests (our validator, the local endpoint) is held against the same ones. To add a
rule's: a line in MUTANTS and one in ACCEPTED. Limits of the model have theirs in model_mutants.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
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
    rule: str
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
    rule: str,
    name: str,
    base: Mapping[str, Any],
    path: str,
    changes: Mapping[str, Any],
    *,
    is_warning: bool = False,
) -> Case:
    return Case(name=name, rule=rule, base=base, path=path, changes=changes, is_warning=is_warning)


def _keeps(rule: str, name: str, base: Mapping[str, Any], changes: Mapping[str, Any]) -> Case:
    return Case(name=name, rule=rule, base=base, changes=changes)


_IMAGE = "AlgorithmSpecification.TrainingImage"
_RESOURCES = "ResourceConfig"
_GROUP = "ResourceConfig.InstanceGroups"
_RUN, _WAIT = "StoppingCondition.MaxRuntimeInSeconds", "StoppingCondition.MaxWaitTimeInSeconds"
_SOURCE = "InputDataConfig[1].DataSource"

MUTANTS: tuple[Case, ...] = (
    *(
        _breaks("needs_its_parts", f"without {part}", ONE_TYPE, part, {part: GONE})
        for part in ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition")
    ),
    *(
        _breaks(
            "excludes_what_it_chooses", f"serverless with {name}", SERVERLESS, name, {name: value}
        )
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
        "excludes_what_it_chooses",
        "serverless with spot instances",
        SERVERLESS,
        "EnableManagedSpotTraining",
        {"EnableManagedSpotTraining": True, "StoppingCondition": SPOT["StoppingCondition"]},
    ),
    _breaks(
        "are_given_in_one_way",
        "groups and a type",
        GROUPS,
        "ResourceConfig.InstanceType",
        {"ResourceConfig.InstanceType": "ml.c5.xlarge"},
    ),
    _breaks(
        "are_given_in_one_way",
        "groups and a count",
        GROUPS,
        "ResourceConfig.InstanceCount",
        {"ResourceConfig.InstanceCount": 1},
    ),
    _breaks(
        "are_given_in_one_way",
        "a type without a count",
        ONE_TYPE,
        "ResourceConfig.InstanceCount",
        {"ResourceConfig.InstanceCount": GONE},
    ),
    _breaks(
        "are_given_in_one_way",
        "a count without a type",
        ONE_TYPE,
        "ResourceConfig.InstanceType",
        {"ResourceConfig.InstanceType": GONE},
    ),
    _breaks(
        "have_hosts",
        "no hosts",
        ONE_TYPE,
        "ResourceConfig.InstanceCount",
        {"ResourceConfig.InstanceCount": 0},
    ),
    _breaks(
        "have_hosts",
        "a group without hosts",
        GROUPS,
        "ResourceConfig.InstanceGroups[1].InstanceCount",
        {f"{_GROUP}.1.InstanceCount": 0},
    ),
    _breaks(
        "have_hosts",
        "no groups",
        {**GROUPS, "InputDataConfig": ONE_TYPE["InputDataConfig"]},
        _GROUP,
        {_GROUP: []},
    ),
    _breaks(
        "have_hosts",
        "a preference without hosts",
        PREFERENCES,
        "ResourceConfig.InstancePreferences[1].InstanceCount",
        {"ResourceConfig.InstancePreferences.1.InstanceCount": 0},
    ),
    _breaks(
        "have_groups_of_different_names",
        "two groups of a name",
        {**GROUPS, "InputDataConfig": ONE_TYPE["InputDataConfig"]},
        "ResourceConfig.InstanceGroups[1].InstanceGroupName",
        {f"{_GROUP}.1.InstanceGroupName": "data"},
    ),
    _breaks(
        "are_preferred_in_one_way",
        "preferences and a type",
        PREFERENCES,
        "ResourceConfig.InstanceType",
        {"ResourceConfig.InstanceType": "ml.g5.xlarge"},
    ),
    _breaks(
        "are_preferred_in_one_way",
        "preferences and groups",
        {**PREFERENCES, "InputDataConfig": []},
        "ResourceConfig.InstanceGroups",
        {
            "InputDataConfig": GROUPS["InputDataConfig"],
            _GROUP: GROUPS[_RESOURCES]["InstanceGroups"],
        },
    ),
    _breaks(
        "are_preferred_in_one_way",
        "preferences and a placement",
        PREFERENCES,
        "ResourceConfig.InstancePlacementConfig",
        {"ResourceConfig.InstancePlacementConfig": {"EnableMultipleJobs": True}},
    ),
    _breaks(
        "are_preferred_in_one_way",
        "preferences and spot instances",
        PREFERENCES,
        "EnableManagedSpotTraining",
        {"EnableManagedSpotTraining": True, _WAIT: 7200},
    ),
    _breaks(
        "are_preferred_in_one_way",
        "a count in some preferences",
        PREFERENCES,
        "ResourceConfig.InstancePreferences",
        {"ResourceConfig.InstancePreferences.1.InstanceCount": GONE},
    ),
    _breaks(
        "are_preferred_in_one_way",
        "a count in preferences and in the whole",
        PREFERENCES,
        "ResourceConfig.InstancePreferences",
        {"ResourceConfig.InstanceCount": 1},
    ),
    _breaks(
        "are_preferred_in_one_way",
        "a type that is preferred twice",
        PREFERENCES,
        "ResourceConfig.InstancePreferences[1].InstanceType",
        {
            "ResourceConfig.InstancePreferences.1.InstanceType": PREFERENCES[_RESOURCES][
                "InstancePreferences"
            ][0]["InstanceType"]
        },
    ),
    _breaks(
        "have_no_fields_of_answers",
        "the type that AWS selected",
        ONE_TYPE,
        "ResourceConfig.SelectedInstanceType",
        {"ResourceConfig.SelectedInstanceType": "ml.c5.xlarge"},
    ),
    _breaks(
        "have_no_fields_of_answers",
        "the count that AWS selected",
        ONE_TYPE,
        "ResourceConfig.SelectedInstanceCount",
        {"ResourceConfig.SelectedInstanceCount": 1},
    ),
    *(
        _breaks(
            "encrypt_no_local_storage",
            f"a key for {name}",
            ONE_TYPE,
            "ResourceConfig.VolumeKmsKeyId",
            {"ResourceConfig.VolumeKmsKeyId": KEY, "ResourceConfig.InstanceType": name},
        )
        for name in ("ml.g4dn.xlarge", "ml.g5.xlarge", "ml.p4d.24xlarge", "ml.r5d.large")
    ),
    _breaks(
        "encrypt_no_local_storage",
        "a key for a group with local disks",
        GROUPS,
        "ResourceConfig.VolumeKmsKeyId",
        {"ResourceConfig.VolumeKmsKeyId": KEY, f"{_GROUP}.1.InstanceType": "ml.p5.48xlarge"},
    ),
    _breaks(
        "keep_warm_pools_to_one_type",
        "a warm pool of groups",
        GROUPS,
        "ResourceConfig.KeepAlivePeriodInSeconds",
        {"ResourceConfig.KeepAlivePeriodInSeconds": 600},
    ),
    _breaks(
        "keep_warm_pools_to_one_type",
        "a warm pool of spot instances",
        SPOT,
        "ResourceConfig.KeepAlivePeriodInSeconds",
        {"ResourceConfig.KeepAlivePeriodInSeconds": 600},
        is_warning=True,
    ),
    _breaks(
        "have_an_image",
        "an image and an algorithm",
        ONE_TYPE,
        _IMAGE,
        {"AlgorithmSpecification.AlgorithmName": "mine"},
    ),
    _breaks("have_an_image", "neither image nor algorithm", ONE_TYPE, _IMAGE, {_IMAGE: GONE}),
    *(
        _breaks(
            "have_an_image_that_knows_groups",
            f"groups of {image}",
            GROUPS,
            _IMAGE,
            {_IMAGE: f"{DLC}/{image}"},
            is_warning=True,
        )
        for image in ("pytorch-training:1.9.1-gpu-py38", "tensorflow-training:2.5.1-cpu-py37")
    ),
    _breaks(
        "have_one_source",
        "a channel of nothing",
        ONE_TYPE,
        _SOURCE,
        {"InputDataConfig.1.DataSource": {}},
    ),
    _breaks(
        "have_one_source",
        "a channel of two sources",
        {**ONE_TYPE, "VpcConfig": VPC},
        _SOURCE,
        {"InputDataConfig.1.DataSource": {**S3, **EFS}},
    ),
    _breaks(
        "have_different_names",
        "two channels of a name",
        ONE_TYPE,
        "InputDataConfig[1].ChannelName",
        {"InputDataConfig.1.ChannelName": "a"},
    ),
    _breaks(
        "go_to_groups_all_or_none",
        "some channels name groups",
        GROUPS,
        _SOURCE,
        {"InputDataConfig.1.DataSource": S3},
    ),
    _breaks(
        "go_to_groups_all_or_none",
        "a file system beside channels that name groups",
        {**GROUPS, "VpcConfig": VPC},
        _SOURCE,
        {"InputDataConfig.1.DataSource": EFS},
    ),
    _breaks(
        "go_to_groups_that_exist",
        "a channel for no group of the job",
        GROUPS,
        f"{_SOURCE}.S3DataSource.InstanceGroupNames[0]",
        {"InputDataConfig.1": _routed("b", "dta")},
    ),
    _breaks(
        "go_to_groups_that_exist",
        "channels for groups of a job without",
        ONE_TYPE,
        "InputDataConfig[0].DataSource.S3DataSource.InstanceGroupNames[0]",
        {"InputDataConfig": [_routed("a", "data")]},
    ),
    _breaks(
        "reach_file_systems_in_a_vpc",
        "a file system without a network",
        ONE_TYPE,
        f"{_SOURCE}.FileSystemDataSource",
        {"InputDataConfig.1.DataSource": EFS},
    ),
    _breaks("ends_within_a_month", "28 days and a second", ONE_TYPE, _RUN, {_RUN: 2419201}),
    _breaks(
        "is_for_spot_instances", "waiting for no spot instance", ONE_TYPE, _WAIT, {_WAIT: 7200}
    ),
    _breaks(
        "is_for_spot_instances",
        "waiting, and spot is off",
        SPOT,
        _WAIT,
        {"EnableManagedSpotTraining": False},
    ),
    _breaks(
        "is_given_for_spot_instances",
        "spot, not waiting",
        SPOT,
        "EnableManagedSpotTraining",
        {_WAIT: GONE},
    ),
    _breaks("lasts_as_long_as_the_job", "a wait too short", SPOT, _WAIT, {_WAIT: 3599}),
    _breaks(
        "lasts_as_long_as_the_job",
        "a wait shorter than AWS's own limit",
        SPOT,
        _WAIT,
        {_RUN: GONE},
    ),
)

ACCEPTED: tuple[Case, ...] = (
    _keeps("needs_its_parts", "serverless", SERVERLESS, {}),
    _keeps("needs_its_parts", "one type", ONE_TYPE, {}),
    _keeps(
        "excludes_what_it_chooses",
        "serverless with what is off",
        SERVERLESS,
        {"EnableManagedSpotTraining": False, "Environment": {}},
    ),
    _keeps("are_given_in_one_way", "groups", GROUPS, {}),
    _keeps("have_hosts", "two hosts", ONE_TYPE, {"ResourceConfig.InstanceCount": 2}),
    _keeps(
        "have_groups_of_different_names",
        "two groups of a type",
        GROUPS,
        {f"{_GROUP}.0.InstanceType": "ml.p3.8xlarge"},
    ),
    _keeps("are_preferred_in_one_way", "counts in preferences", PREFERENCES, {}),
    _keeps(
        "are_preferred_in_one_way",
        "one count for all preferences",
        PREFERENCES,
        {
            "ResourceConfig.InstanceCount": 1,
            "ResourceConfig.InstancePreferences.0.InstanceCount": GONE,
            "ResourceConfig.InstancePreferences.1.InstanceCount": GONE,
        },
    ),
    _keeps("have_no_fields_of_answers", "nothing selected", ONE_TYPE, {}),
    _keeps(
        "encrypt_no_local_storage",
        "a key for volumes",
        GROUPS,
        {"ResourceConfig.VolumeKmsKeyId": KEY},
    ),
    _keeps(
        "encrypt_no_local_storage",
        "no key for local disks",
        ONE_TYPE,
        {"ResourceConfig.InstanceType": "ml.g5.xlarge"},
    ),
    _keeps(
        "keep_warm_pools_to_one_type",
        "a warm pool",
        ONE_TYPE,
        {"ResourceConfig.KeepAlivePeriodInSeconds": 600},
    ),
    _keeps(
        "keep_warm_pools_to_one_type",
        "no warm pool of groups",
        GROUPS,
        {"ResourceConfig.KeepAlivePeriodInSeconds": 0},
    ),
    _keeps(
        "have_an_image",
        "an algorithm",
        ONE_TYPE,
        {_IMAGE: GONE, "AlgorithmSpecification.AlgorithmName": "mine"},
    ),
    *(
        _keeps(
            "have_an_image_that_knows_groups",
            f"groups of {image}",
            GROUPS,
            {_IMAGE: f"{DLC}/{image}"},
        )
        for image in (
            "pytorch-training:1.10.0-gpu-py38",
            "pytorch-training:2.2.0-gpu-py310",
            "tensorflow-training:2.6.0-gpu-py38",
        )
    ),
    _keeps(
        "have_an_image_that_knows_groups",
        "an old image of one type",
        ONE_TYPE,
        {_IMAGE: f"{DLC}/pytorch-training:1.9.1-gpu-py38"},
    ),
    _keeps("have_one_source", "a source each", ONE_TYPE, {}),
    _keeps("have_different_names", "no channels", ONE_TYPE, {"InputDataConfig": GONE}),
    _keeps(
        "go_to_groups_all_or_none",
        "no channel names groups",
        GROUPS,
        {"InputDataConfig": ONE_TYPE["InputDataConfig"]},
    ),
    _keeps(
        "go_to_groups_all_or_none",
        "a list of no groups is none",
        ONE_TYPE,
        {"InputDataConfig.0": _routed("a")},
    ),
    _keeps("go_to_groups_that_exist", "groups of the job", GROUPS, {}),
    _keeps(
        "reach_file_systems_in_a_vpc",
        "a file system in a network",
        ONE_TYPE,
        {"InputDataConfig.1.DataSource": EFS, "VpcConfig": VPC},
    ),
    _keeps("ends_within_a_month", "28 days", ONE_TYPE, {_RUN: 2419200}),
    _keeps("is_for_spot_instances", "waiting for spot instances", SPOT, {}),
    _keeps(
        "is_given_for_spot_instances", "spot is off", ONE_TYPE, {"EnableManagedSpotTraining": False}
    ),
    _keeps("lasts_as_long_as_the_job", "no time to wait", SPOT, {_WAIT: 3600}),
)

#: Eleven violations in one request, of every kind that the model has.
ELEVEN = Case(
    name="eleven violations",
    rule="",
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
