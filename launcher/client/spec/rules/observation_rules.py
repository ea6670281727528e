"""Rules for monitoring: TensorBoard, MLflow, SageMaker's debugger and profiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.job_parts import Tracking
from launcher.client.spec.rules.channel_rules import uri_problems
from launcher.errors import Problem
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


_WITH_OUTPUT = ("tensorboard_output_config", "debugger_hook_config", "profiler_config")
#: SDK v2's placeholder until it knows the region.
_NO_IMAGE = "DEFAULT_RULE_EVALUATOR_IMAGE"


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with outputs, rules and the profiler."""
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
