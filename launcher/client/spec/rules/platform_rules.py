"""Rules for what the platform runs, and how: image, command, network, role, volumes, interruptions.

Sources: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AlgorithmSpecification.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html and the API pages
of StoppingCondition and CheckpointConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import range_problems
from launcher.client.spec.rules.channel_rules import uri_problems
from launcher.errors import FieldPath, Problem
from launcher.shared import (
    DEFAULT_ML_ROOT,
    OUT_OF_CAPACITY,
    RETRY_CAUSES,
    MlPaths,
    choice_fix,
    shown,
)

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_FRAMEWORKS = ("pytorch", "tensorflow")
_VERSIONS = {
    "framework_version": (re.compile(r"\d+(\.\d+){1,2}"), "2.2 or 2.2.0"),
    "py_version": (re.compile(r"py\d+"), "py310"),
    "transformers_version": (re.compile(r"\d+(\.\d+){1,2}"), "4.56 or 4.56.2"),
}
_ACCESS = ("training_repository_access_mode",)
_PROVIDER = ("training_repository_credentials_provider_arn",)
_OWN = {
    "image_uri": "image",
    "framework_version": "image",
    "entry_point": "program",
    "task": "program",
}
#: The largest EBS volume, in GB.
_VOLUME_LIMIT = 16384
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_ROLE_NAME = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)
_SPOT = ("use_spot_instances",)
_LOCAL_PATH = ("checkpoint_local_path",)
#: Folders below /opt/ml that the platform itself fills or empties.
_TAKEN = ("input", "code", "lib", "output", "model")


def image_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the image, its version, its registry and its command."""
    yield from _source_problems(spec)
    yield from _version_problems(spec)
    yield from _command_problems(spec)
    yield from _registry_problems(spec)


def _source_problems(spec: JobSpec) -> Iterator[Problem]:
    image, algorithm = spec.image_uri, spec.algorithm_arn
    if image is not None and not re.fullmatch(r"\S+", image):
        fix = "write registry/name:tag"
        yield Problem(path=("image_uri",), what=f'"{image}" cannot be an image', fix=fix)
    if algorithm is None:
        return
    for field, part in _OWN.items():
        if getattr(spec, field):
            yield Problem(
                path=("algorithm_arn",),
                about=((field,),),
                what=f"algorithm_arn is given beside {field}",
                fix=f"remove one of them: an algorithm has its own {part}",
            )


def _version_problems(spec: JobSpec) -> Iterator[Problem]:
    """Check the framework and its versions; as in SDK v2, an image_uri overrides a version."""
    if spec.framework is not None and spec.framework not in _FRAMEWORKS:
        what = f'"{spec.framework}" is not a known framework'
        fix = choice_fix(spec.framework, _FRAMEWORKS)
        yield Problem(path=("framework",), what=what, fix=fix)
    for field, (form, example) in _VERSIONS.items():
        value = getattr(spec, field)
        if value is not None and not form.fullmatch(value):
            what = f'"{value}" cannot be a {field}'
            yield Problem(path=(field,), what=what, fix=f"write for example {example}")
        if value is not None and spec.framework is None:
            what = f"{field} is given, but no framework"
            fix = f"write framework: {' or '.join(_FRAMEWORKS)}"
            yield Problem(path=(field,), about=(("framework",),), what=what, fix=fix)
    has_base = spec.framework_version is not None or spec.image_uri is not None
    if spec.transformers_version is not None and not has_base:
        yield Problem(
            path=("transformers_version",),
            about=(("framework_version",),),
            what="transformers_version is given, but no framework_version",
            fix="write the version of PyTorch or TensorFlow that the image has, such as "
            'framework_version: "2.8"',
        )


def _command_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in ("container_entry_point", "container_arguments"):
        words = getattr(spec, field)
        code = "entry_point" if spec.entry_point else "task"
        if words and getattr(spec, code):
            what = f"{field} is given beside {code}"
            fix = "remove one of them: a container starts either Launcher or a command of your own"
            yield Problem(path=(field,), about=((code,),), what=what, fix=fix)


def _registry_problems(spec: JobSpec) -> Iterator[Problem]:
    mode = spec.training_repository_access_mode
    provider = spec.training_repository_credentials_provider_arn
    if mode == "Vpc" and not spec.subnets:
        what = "a registry in a VPC, but the job is in none"
        fix = "write subnets and security_group_ids"
        yield Problem(path=_ACCESS, about=(("subnets",),), what=what, fix=fix)
    if provider is not None and mode != "Vpc":
        what = "credentials for a registry that is not in a VPC"
        fix = "write training_repository_access_mode: Vpc, or remove the credentials"
        yield Problem(path=_PROVIDER, about=(_ACCESS,), what=what, fix=fix)


def place_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the hosts' volumes, the network, the role and the locations in S3."""
    yield from range_problems(("volume_size",), spec.volume_size, 1, _VOLUME_LIMIT, "GB")
    yield from _network_problems(spec)
    yield from _name_problems(spec)


def _network_problems(spec: JobSpec) -> Iterator[Problem]:
    both = {"subnets": spec.subnets, "security_group_ids": spec.security_group_ids}
    if bool(spec.subnets) != bool(spec.security_group_ids):
        given, missing = sorted(both, key=lambda field: not both[field])
        what = f"{given} without {missing}"
        fix = f"write {missing} too: a VPC needs both"
        yield Problem(path=(given,), about=((missing,),), what=what, fix=fix)


def _name_problems(spec: JobSpec) -> Iterator[Problem]:
    if spec.role is not None:
        pattern = _ROLE_ARN if spec.role.startswith("arn:") else _ROLE_NAME
        if not pattern.fullmatch(spec.role):
            what = f'"{spec.role}" is neither the name nor the ARN of an IAM role'
            fix = "write its name, or arn:aws:iam::123456789012:role/NAME"
            yield Problem(path=("role",), what=what, fix=fix)
    for field in ("output_path", "code_location", "checkpoint_s3_uri"):
        location = getattr(spec, field)
        if location is not None:
            yield from uri_problems(location, (field,))


def interruption_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with spot instances and checkpoints."""
    yield from _folder_problems(spec)
    if spec.use_spot_instances:
        what = "spot instances without checkpoints: an interruption loses all work"
        yield from _checkpoint_problems(spec, _SPOT, what)


def _checkpoint_problems(spec: JobSpec, path: FieldPath, what: str) -> Iterator[Problem]:
    if spec.checkpoint_s3_uri is None and not spec.allow_restart_from_scratch:
        yield Problem(
            path=path,
            about=(("checkpoint_s3_uri",), ("allow_restart_from_scratch",)),
            what=what,
            fix="write checkpoint_s3_uri: s3://bucket/prefix, and save to /opt/ml/checkpoints; "
            "or allow_restart_from_scratch: true",
        )


def retry_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the policy of restarts."""
    retry = spec.retry
    if retry is None:
        return
    yield from range_problems(("retry", "attempts"), retry.attempts, 1)
    yield from range_problems(("retry", "backoff"), retry.backoff, 0)
    if not retry.on:
        fix = f"write [{', '.join(RETRY_CAUSES)}], or leave it out"
        yield Problem(path=("retry", "on"), what="retry names no cause", fix=fix)
    for index, cause in enumerate(retry.on):
        yield from _cause_problems(cause, ("retry", "on", index))
    if set(map(str, retry.on)) - {OUT_OF_CAPACITY}:
        yield from _checkpoint_problems(
            spec, ("retry",), "retry without checkpoints: a restart loses all work"
        )


def _cause_problems(cause: object, path: FieldPath) -> Iterator[Problem]:
    if not isinstance(cause, Mapping):
        if cause not in RETRY_CAUSES:
            fix = choice_fix(str(cause), (*RETRY_CAUSES, "exit: [CODE, ...]"))
            yield Problem(path=path, what=f"{shown(cause)} is no cause of a restart", fix=fix)
        return
    codes = cause.get("exit")
    are_codes = isinstance(codes, list) and all(type(c) is int and 0 < c < 256 for c in codes)
    if cause.keys() != {"exit"} or not codes or not are_codes:
        fix = "write exit: [75], with codes from 1 to 255"
        yield Problem(path=path, what="the exit codes of a restart are not a list", fix=fix)


def _folder_problems(spec: JobSpec) -> Iterator[Problem]:
    folder = spec.checkpoint_local_path
    if folder is None:
        return
    if spec.checkpoint_s3_uri is None:
        what = "checkpoint_local_path is given, but no checkpoint_s3_uri to keep it at"
        fix = "write checkpoint_s3_uri: s3://bucket/prefix"
        yield Problem(path=_LOCAL_PATH, about=(("checkpoint_s3_uri",),), what=what, fix=fix)
    if not _is_own_folder(folder):
        what = f'"{folder}" cannot be the checkpoint folder'
        fix = f"use {MlPaths().checkpoints}, or another folder of its own below {DEFAULT_ML_ROOT}"
        yield Problem(path=_LOCAL_PATH, what=what, fix=fix)


def _is_own_folder(folder: str) -> bool:
    """Return whether a folder is below /opt/ml (which local hosts have too) and not reserved."""
    path = PurePosixPath(folder)
    if ".." in path.parts or not folder.isprintable():
        return False
    if not path.is_relative_to(DEFAULT_ML_ROOT):
        return False
    below = path.relative_to(DEFAULT_ML_ROOT).parts
    return bool(below) and below[0] not in _TAKEN
