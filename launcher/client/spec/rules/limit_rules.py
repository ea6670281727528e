"""Rules for values that no limit of the service model has: variables, secrets, checkpoints, names.

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html and the
API pages of StoppingCondition and CheckpointConfig. No message contains what may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from numbers import Number
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import range_problems
from launcher.client.spec.roles import job_roles
from launcher.client.spec.rules.channel_rules import uri_problems
from launcher.errors import FieldPath, Problem
from launcher.shared import (
    DEFAULT_ML_ROOT,
    FROM_ENVIRONMENT,
    PARALLEL_VARIABLE,
    SECRET_ARN,
    SECRET_PREFIX,
    TASK_VARIABLE,
    TOKEN_VARIABLE,
    MlPaths,
    Role,
    is_of_toolkit,
    is_set_by_jobs,
)

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


#: The largest EBS volume, in GB.
_VOLUME_LIMIT = 16384
_VARIABLES_LIMIT, _VARIABLE_LENGTH = 100, 512
_OWN_VARIABLES = (TOKEN_VARIABLE, PARALLEL_VARIABLE, TASK_VARIABLE)
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NO_VARIABLE = re.compile("[\0\ud800-\udfff]")
METRICS_LIMIT = 40
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_ROLE_NAME = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with single values."""
    yield from range_problems(("volume_size",), spec.volume_size, 1, _VOLUME_LIMIT, "GB")
    yield from _hyperparameter_problems(spec)
    yield from _environment_problems(spec)
    yield from _tag_problems(spec)
    yield from _metric_problems(spec)
    yield from _network_problems(spec)
    yield from _name_problems(spec)


def _hyperparameter_problems(spec: JobSpec) -> Iterator[Problem]:
    for name, value in spec.hyperparameters.items():
        here = ("hyperparameters", name)
        if is_of_toolkit(name):
            what = f'the hyperparameter "{name}" has a name that SageMaker\'s toolkit keeps'
            yield Problem(path=here, what=what, fix="give it another name")
        elif not _can_be_name(name):
            shown = json.dumps(name, ensure_ascii=False)
            what = f"{shown} cannot be the name of a hyperparameter"
            fix = "use printable characters, and no ="
            yield Problem(path=here, what=what, fix=fix)
        if not _can_be_variable(value):
            what = f'the hyperparameter "{name}" holds a character that no variable can hold'
            fix = "take out null characters and halves of surrogate pairs"
            yield Problem(path=here, what=what, fix=fix)
        try:
            if spec.runs_script or not isinstance(value, Number):  # numpy's and decimal's too
                json.dumps(value)
        except (TypeError, ValueError) as error:
            what = f'the hyperparameter "{name}" is not JSON: {error}'
            fix = "use texts, numbers, true/false, lists and mappings"
            yield Problem(path=here, what=what, fix=fix)


def _can_be_name(name: str) -> bool:
    """Return whether a hyperparameter can have the name; it becomes a variable, SM_HP_<NAME>."""
    return name != "" and name.isprintable() and "=" not in name


def _can_be_variable(value: object) -> bool:
    """Return whether all strings in a value fit environment variables and command lines."""
    if isinstance(value, Mapping):
        return all(map(_can_be_variable, (*value, *value.values())))
    if isinstance(value, list):
        return all(map(_can_be_variable, value))
    return not isinstance(value, str) or not _NO_VARIABLE.search(value)


def is_variable(name: str) -> bool:
    """Return whether an environment variable of a job can have the name."""
    return _VARIABLE.fullmatch(name) is not None and len(name) <= _VARIABLE_LENGTH


def is_overwritten(spec: JobSpec, variable: str) -> bool:
    """Return whether the job's hosts or ranks get a value of their own for a variable."""
    if not spec.runs_script:
        return False
    roles, _ = job_roles(spec)
    has_ranks = spec.distribution is not None or Role.TRAIN in roles.values()
    own = getattr(spec.distribution, "variables", ())  # before the rules, it may be of any type
    return variable in own or is_set_by_jobs(variable, has_ranks=has_ranks)


def _environment_problems(spec: JobSpec) -> Iterator[Problem]:
    most = _VARIABLES_LIMIT - spec.has_token - len(spec.secrets)
    if len(spec.environment) > most:
        what = f"{len(spec.environment)} environment"
        yield Problem(path=("environment",), what=what, fix=f"use {most} at most")
    for name, value in spec.environment.items():
        here = ("environment", name)
        if name in _OWN_VARIABLES or name.startswith(SECRET_PREFIX) or is_overwritten(spec, name):
            what = f"{name} is set by Launcher itself, so this value would be lost"
            fix = "remove it; for a value of your own, use another name"
            yield Problem(path=here, about=(("distribution",),), what=what, fix=fix)
        if not _can_be_variable(value):
            what = f"the environment variable {name} holds a character that no variable can hold"
            fix = "take out null characters and halves of surrogate pairs"
            yield Problem(path=here, what=what, fix=fix)


def _tag_problems(spec: JobSpec) -> Iterator[Problem]:
    for key in spec.tags:
        if key.lower().startswith("aws:"):
            what = f'the tag "{key}" has a prefix that AWS keeps'
            yield Problem(path=("tags", key), what=what, fix='use a key without "aws:"')


def _metric_problems(spec: JobSpec) -> Iterator[Problem]:
    for index, metric in enumerate(spec.metric_definitions):
        path = ("metric_definitions", index, "Regex")
        yield from regex_problems(metric.name, metric.regex, path)


def regex_problems(name: str, regex: str, path: FieldPath) -> Iterator[Problem]:
    """Find a metric's expression that has no group, or is none of Python's."""
    try:
        groups = re.compile(regex).groups
    except (re.error, OverflowError, RecursionError) as error:
        what = f'the expression of metric "{name}" is not a regular expression: {error}'
        yield Problem(path=path, what=what, fix="write for example loss=([0-9.]+)")
        return
    if groups == 0:
        what = f'the expression of metric "{name}" has no group: {regex}'
        fix = "put the number into parentheses, as in loss=([0-9.]+)"
        yield Problem(path=path, what=what, fix=fix)


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


#: SageMaker's limit for the length of a variable's value, which is the ARN.
_LONGEST_ARN = 512


def secret_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find secrets without a usable name or source, and those of a job that cannot read them."""
    for name, source in spec.secrets.items():
        path = ("secrets", name)
        if not is_variable(name):
            what = "a secret has a name that no environment variable can have"
            fix = "use letters, digits and _, and no digit first"
            yield Problem(path=("secrets",), what=what, fix=fix)
        elif is_overwritten(spec, name):
            what = f"{name} is set by Launcher itself, so the secret would be lost"
            yield Problem(path=path, what=what, fix="give it another name")
        elif name in spec.environment:
            what = f"{name} is in environment, too"
            yield Problem(path=path, about=(("environment",),), what=what, fix="remove it there")
        elif source != FROM_ENVIRONMENT and not _is_arn(source):
            what = f"the source of the secret {name} is neither {FROM_ENVIRONMENT} nor an ARN"
            fix = (
                f'write "{name}: {FROM_ENVIRONMENT}", which takes the value from your environment '
                "for jobs on this machine, or the ARN of a secret of AWS Secrets Manager"
            )
            yield Problem(path=path, what=what, fix=fix)
    if spec.secrets and not spec.starts_launcher:
        what = "secrets are read by Launcher, which this job does not start"
        fix = "remove them, or give the job an entry_point of its own"
        yield Problem(path=("secrets",), what=what, fix=fix)


def _is_arn(source: str) -> bool:
    return SECRET_ARN.fullmatch(source) is not None and len(source) <= _LONGEST_ARN


_SPOT = ("use_spot_instances",)
_LOCAL_PATH = ("checkpoint_local_path",)
#: Folders below /opt/ml that the platform itself fills or empties.
_TAKEN = ("input", "code", "lib", "output", "model")


def interruption_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with spot instances and checkpoints."""
    yield from _folder_problems(spec)
    is_lost = spec.checkpoint_s3_uri is None and not spec.allow_restart_from_scratch
    if spec.use_spot_instances and is_lost:
        yield Problem(
            path=_SPOT,
            about=(("checkpoint_s3_uri",), ("allow_restart_from_scratch",)),
            what="spot instances without checkpoints: an interruption loses all work",
            fix="write checkpoint_s3_uri: s3://bucket/prefix, and save to /opt/ml/checkpoints; "
            "or allow_restart_from_scratch: true",
        )


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
