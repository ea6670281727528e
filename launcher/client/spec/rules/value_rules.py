"""Rules for a job's own values: hyperparameters, variables, secrets, tags, metrics, monitoring.

No message contains what may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from numbers import Number
from typing import TYPE_CHECKING

from launcher.client.spec.job_parts import Tracking
from launcher.client.spec.roles import job_roles
from launcher.client.spec.rules.channel_rules import uri_problems
from launcher.errors import FieldPath, Problem
from launcher.shared import (
    FROM_ENVIRONMENT,
    PARALLEL_VARIABLE,
    SECRET_ARN,
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

_VARIABLES_LIMIT, _VARIABLE_LENGTH = 100, 512
_OWN_VARIABLES = (TOKEN_VARIABLE, PARALLEL_VARIABLE, TASK_VARIABLE)
_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_NO_VARIABLE = re.compile("[\0\ud800-\udfff]")
METRICS_LIMIT = 40
#: SageMaker's limit for the length of a variable's value, which is the ARN.
_LONGEST_ARN = 512
_WITH_OUTPUT = ("tensorboard_output_config", "debugger_hook_config", "profiler_config")
#: SDK v2's placeholder until it knows the region.
_NO_IMAGE = "DEFAULT_RULE_EVALUATOR_IMAGE"
_TRACKERS = ("tensorboard", "mlflow", "callback")
#: Schemes of MLflow's stores; a database's may be followed by "+driver".
_SCHEMES = (
    *("http", "https", "file", "sqlite", "postgresql", "mysql", "mssql", "databricks"),
    *("databricks-uc", "uc"),
)
_SCHEME = re.compile(r"(?P<name>[^:+/]+)(?:\+[a-z0-9]+)?:")
_SERVER_WITH_NAME = re.compile(r"https?://[^/]*@")
_DATABASE_WITH_PASSWORD = re.compile(r"[^:/]+://[^/@:]*:[^/]+@")
_CALLBACK = re.compile(r"(?:.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*")


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with hyperparameters, environment variables, tags and metrics."""
    yield from _hyperparameter_problems(spec)
    yield from _environment_problems(spec)
    yield from _tag_problems(spec)
    yield from _metric_problems(spec)


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


def debugger_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the outputs, rules and profiler of SageMaker's debugger."""
    yield from _output_problems(spec)
    yield from _rule_problems(spec)
    if spec.disable_profiler and (spec.profiler_config or spec.profiler_rules):
        given = "profiler_config" if spec.profiler_config else "profiler_rules"
        what = f"disable_profiler is given beside {given}"
        path = ("disable_profiler",)
        yield Problem(path=path, about=((given,),), what=what, fix="remove one of them")


def _output_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in _WITH_OUTPUT:
        config = getattr(spec, field)
        place = (config or {}).get("S3OutputPath")
        if place is not None:
            yield from uri_problems(str(place), (field, "S3OutputPath"))


def _rule_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in ("rules", "profiler_rules"):
        for index, rule in enumerate(getattr(spec, field)):
            if rule.get("RuleEvaluatorImage") == _NO_IMAGE:
                yield Problem(
                    path=(field, index, "RuleEvaluatorImage"),
                    what="the image of the rule depends on the region",
                    fix='write what sagemaker.image_uris.retrieve("debugger", REGION) returns',
                )


def tracking_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find trackers without a usable place."""
    if spec.tracking is None:
        return
    tracking = spec.tracking
    if not any(getattr(tracking, name) for name in _TRACKERS):
        what = "tracking names no tracker"
        fix = "write tensorboard: FOLDER, mlflow: URI or callback: MODULE:FUNCTION, or remove it"
        yield Problem(path=("tracking",), what=what, fix=fix)
        return
    yield from _place_problems(tracking)
    if tracking.mlflow_experiment is not None and not tracking.mlflow:
        what = "mlflow_experiment is given without mlflow"
        fix = "write mlflow: URI, such as http://localhost:5000, or remove the experiment"
        yield Problem(path=("tracking", "mlflow_experiment"), what=what, fix=fix)
    callback = tracking.callback
    if callback is not None and not _CALLBACK.fullmatch(callback):
        what = f'"{callback}" names no function'
        fix = 'write "module:function" or "file.py:function"'
        yield Problem(path=("tracking", "callback"), what=what, fix=fix)


def _place_problems(tracking: Tracking) -> Iterator[Problem]:
    folder, uri = tracking.tensorboard, tracking.mlflow
    if folder is not None and "://" in folder:
        what = f'"{folder}" is not a folder of this machine'
        fix = "write a path: whoever follows the job writes there"
        yield Problem(path=("tracking", "tensorboard"), what=what, fix=fix)
    scheme = uri and _SCHEME.match(uri)
    if scheme and scheme["name"] not in _SCHEMES:
        what = f'MLflow has no store at "{uri}"'
        fix = choice_fix(scheme["name"], _SCHEMES)
        yield Problem(path=("tracking", "mlflow"), what=what, fix=fix)
    elif uri and _SERVER_WITH_NAME.match(uri):
        what = "the URI of MLflow's server has a name or password, which records would keep"
        fix = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD where you follow the job"
        yield Problem(path=("tracking", "mlflow"), what=what, fix=fix)
    elif uri and _DATABASE_WITH_PASSWORD.match(uri):
        what = "the URI of MLflow's database has a password, which records would keep"
        fix = "leave it out, and give it as the database's client reads it: PGPASSWORD, ~/.my.cnf"
        yield Problem(path=("tracking", "mlflow"), what=what, fix=fix)
