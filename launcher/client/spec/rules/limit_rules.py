"""Rules for single values: SageMaker's limits and our own.

The numbers are those of the service model of CreateTrainingJob (botocore 1.44.5) and its API page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sized
from numbers import Number
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import range_problems
from launcher.client.spec.roles import job_roles
from launcher.client.spec.rules.channel_rules import INPUT_MODES, uri_problems
from launcher.errors import FieldPath, Problem
from launcher.shared import (
    PARALLEL_VARIABLE,
    SECRET_PREFIX,
    TASK_VARIABLE,
    TOKEN_VARIABLE,
    Role,
    choice_fix,
    is_of_toolkit,
    is_set_by_jobs,
)

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_DAY = 24 * 60 * 60
_MAX_RUN_LIMIT = 28 * _DAY
#: The largest EBS volume, in GB.
_VOLUME_LIMIT = 16384
_HYPERPARAMETERS_LIMIT, _HYPERPARAMETER_NAME, _HYPERPARAMETER_VALUE = 100, 256, 2500
_VARIABLES_LIMIT, _VARIABLE_LENGTH = 100, 512
_OWN_VARIABLES = (TOKEN_VARIABLE, PARALLEL_VARIABLE, TASK_VARIABLE)
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NO_VARIABLE = re.compile("[\0\ud800-\udfff]")
_TAGS_LIMIT, _TAG_KEY, _TAG_VALUE = 50, 128, 256
_TAG = re.compile(r"[\w\s.:/=+\-@]*")
METRICS_LIMIT, _METRIC_NAME, _METRIC_REGEX = 40, 255, 500
_SUBNETS_LIMIT, _SECURITY_GROUPS_LIMIT = 16, 5
_NETWORK_ID = re.compile(r"[-0-9a-zA-Z]{1,32}")
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+", re.ASCII)
_ROLE_NAME = re.compile(r"[\w+=,.@-]{1,64}", re.ASCII)


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with single values."""
    yield from _number_problems(spec)
    yield from _hyperparameter_problems(spec)
    yield from _environment_problems(spec)
    yield from _tag_problems(spec)
    yield from _metric_problems(spec)
    yield from _network_problems(spec)
    yield from _name_problems(spec)


def _number_problems(spec: JobSpec) -> Iterator[Problem]:
    yield from range_problems(("max_run",), spec.max_run, 1, _MAX_RUN_LIMIT, "seconds (28 days)")
    yield from range_problems(("volume_size",), spec.volume_size, 1, _VOLUME_LIMIT, "GB")


def _hyperparameter_problems(spec: JobSpec) -> Iterator[Problem]:
    path = ("hyperparameters",)
    yield from count_problems(path, spec.hyperparameters, _HYPERPARAMETERS_LIMIT)
    for name, value in spec.hyperparameters.items():
        here = (*path, name)
        if is_of_toolkit(name):
            what = f'the hyperparameter "{name}" has a name that SageMaker\'s toolkit keeps'
            yield Problem(path=here, what=what, fix="give it another name")
        elif not _can_be_name(name):
            shown = json.dumps(name, ensure_ascii=False)
            what = f"{shown} cannot be the name of a hyperparameter"
            fix = f"use 1 to {_HYPERPARAMETER_NAME} printable characters, and no ="
            yield Problem(path=here, what=what, fix=fix)
        if not _can_be_variable(value):
            what = f'the hyperparameter "{name}" holds a character that no variable can hold'
            fix = "take out null characters and halves of surrogate pairs"
            yield Problem(path=here, what=what, fix=fix)
        try:
            sent = _text_of(value, is_json=spec.runs_script)
        except (TypeError, ValueError) as error:
            what = f'the hyperparameter "{name}" is not JSON: {error}'
            fix = "use texts, numbers, true/false, lists and mappings"
            yield Problem(path=here, what=what, fix=fix)
        else:
            if len(sent) > _HYPERPARAMETER_VALUE:
                form = " as JSON" if spec.runs_script else ""
                what = f'the hyperparameter "{name}" has {len(sent)} characters{form}'
                fix = f"use {_HYPERPARAMETER_VALUE} at most; put larger values into a file"
                yield Problem(path=here, what=what, fix=fix)


def _text_of(value: object, *, is_json: bool) -> str:
    """Return a hyperparameter as it is sent: as JSON, or as plain text for an image's own program.

    Raises TypeError or ValueError for a value that cannot be sent.
    """
    if not is_json and isinstance(value, Number):  # numpy's and decimal's too
        return str(value)
    encoded = json.dumps(value)
    return encoded if is_json else str(value)


def _can_be_name(name: str) -> bool:
    """Return whether a hyperparameter can have the name; it becomes a variable, SM_HP_<NAME>."""
    return 1 <= len(name) <= _HYPERPARAMETER_NAME and name.isprintable() and "=" not in name


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
    path = ("environment",)
    most = _VARIABLES_LIMIT - spec.has_token - len(spec.secrets)
    yield from count_problems(path, spec.environment, most)
    for name, value in spec.environment.items():
        here = (*path, name)
        if name in _OWN_VARIABLES or name.startswith(SECRET_PREFIX) or is_overwritten(spec, name):
            what = f"{name} is set by Launcher itself, so this value would be lost"
            fix = "remove it; for a value of your own, use another name"
            yield Problem(path=here, about=(("distribution",),), what=what, fix=fix)
        elif not is_variable(name):
            what = f'"{name}" cannot be the name of an environment variable'
            fix = "use letters, digits and _, and no digit first"
            yield Problem(path=here, what=what, fix=fix)
        if not _can_be_variable(value):
            what = f"the environment variable {name} holds a character that no variable can hold"
            fix = "take out null characters and halves of surrogate pairs"
            yield Problem(path=here, what=what, fix=fix)
        if len(value) > _VARIABLE_LENGTH:
            what = f"the environment variable {name} has {len(value)} characters"
            fix = f"use {_VARIABLE_LENGTH} at most; put larger values into a file"
            yield Problem(path=here, what=what, fix=fix)


def _tag_problems(spec: JobSpec) -> Iterator[Problem]:
    yield from count_problems(("tags",), spec.tags, _TAGS_LIMIT)
    for key, value in spec.tags.items():
        path = ("tags", key)
        if key.lower().startswith("aws:"):
            what = f'the tag "{key}" has a prefix that AWS keeps'
            yield Problem(path=path, what=what, fix='use a key without "aws:"')
        elif not 1 <= len(key) <= _TAG_KEY or not _TAG.fullmatch(key):
            what = f'"{key}" cannot be the key of a tag'
            fix = f"use 1 to {_TAG_KEY} letters, digits, spaces and . : / = + - @ _"
            yield Problem(path=path, what=what, fix=fix)
        if len(value) > _TAG_VALUE or not _TAG.fullmatch(value):
            what = f'"{value}" cannot be the value of a tag'
            fix = f"use at most {_TAG_VALUE} letters, digits, spaces and . : / = + - @ _"
            yield Problem(path=path, what=what, fix=fix)


def _metric_problems(spec: JobSpec) -> Iterator[Problem]:
    yield from count_problems(("metric_definitions",), spec.metric_definitions, METRICS_LIMIT)
    for index, metric in enumerate(spec.metric_definitions):
        path = ("metric_definitions", index)
        if not 1 <= len(metric.name) <= _METRIC_NAME:
            what = f"a metric's name has {len(metric.name)} characters"
            yield Problem(path=(*path, "Name"), what=what, fix=f"use 1 to {_METRIC_NAME}")
        yield from regex_problems(metric.name, metric.regex, (*path, "Regex"))


def regex_problems(name: str, regex: str, path: FieldPath) -> Iterator[Problem]:
    """Find a metric's expression that has no group, or is none of Python's."""
    if not 1 <= len(regex) <= _METRIC_REGEX:
        what = f'the expression of metric "{name}" has {len(regex)} characters'
        yield Problem(path=path, what=what, fix=f"use 1 to {_METRIC_REGEX}")
        return
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
    yield from count_problems(("subnets",), spec.subnets, _SUBNETS_LIMIT)
    yield from count_problems(
        ("security_group_ids",), spec.security_group_ids, _SECURITY_GROUPS_LIMIT
    )
    for field, ids in both.items():
        for index, identity in enumerate(ids):
            if not _NETWORK_ID.fullmatch(identity):
                what = f'"{identity}" cannot be one of {field}'
                yield Problem(path=(field, index), what=what, fix="copy the id from the VPC")


def _name_problems(spec: JobSpec) -> Iterator[Problem]:
    if spec.input_mode not in INPUT_MODES:
        what = f'"{spec.input_mode}" is not a known input_mode'
        yield Problem(path=("input_mode",), what=what, fix=choice_fix(spec.input_mode, INPUT_MODES))
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


def count_problems(path: FieldPath, items: Sized, most: int) -> Iterator[Problem]:
    """Find a collection of more than `most` items."""
    if len(items) > most:
        yield Problem(path=path, what=f"{len(items)} {path[0]}", fix=f"use {most} at most")
