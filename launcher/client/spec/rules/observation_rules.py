"""Rules for monitoring: experiments, TensorBoard, SageMaker's debugger and profiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.rules.channel_rules import uri_problems
from launcher.errors import Problem
from launcher.shared import choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

_EXPERIMENT = ("experiment_config",)
_EXPERIMENT_NAMES = ("ExperimentName", "TrialName", "TrialComponentDisplayName", "RunName")
_EXPERIMENT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,119}")
_WITH_OUTPUT = ("tensorboard_output_config", "debugger_hook_config", "profiler_config")
#: SDK v2's placeholder until it knows the region.
_NO_IMAGE = "DEFAULT_RULE_EVALUATOR_IMAGE"


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with experiments, outputs, rules and the profiler."""
    yield from _experiment_problems(spec)
    yield from _output_problems(spec)
    yield from _rule_problems(spec)
    if spec.disable_profiler and (spec.profiler_config or spec.profiler_rules):
        given = "profiler_config" if spec.profiler_config else "profiler_rules"
        what = f"disable_profiler is given beside {given}"
        path = ("disable_profiler",)
        yield Problem(path=path, about=((given,),), what=what, fix="remove one of them")


def _experiment_problems(spec: JobSpec) -> Iterator[Problem]:
    for name, value in (spec.experiment_config or {}).items():
        path = (*_EXPERIMENT, name)
        if name not in _EXPERIMENT_NAMES:
            what = f'"{name}" is not a part of experiment_config'
            yield Problem(path=path, what=what, fix=choice_fix(name, _EXPERIMENT_NAMES))
        elif not isinstance(value, str) or not _EXPERIMENT_NAME.fullmatch(value):
            what = f'"{value}" cannot be the {name}'
            fix = "use 1 to 120 letters, digits and hyphens, without a hyphen at either end"
            yield Problem(path=path, what=what, fix=fix)


def _output_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in _WITH_OUTPUT:
        config = getattr(spec, field)
        place = (config or {}).get("S3OutputPath")
        if place is not None:
            yield from uri_problems(str(place), (field, "S3OutputPath"))
        elif config is not None and field == "tensorboard_output_config":
            what = f"{field} without S3OutputPath"
            yield Problem(path=(field,), what=what, fix="write S3OutputPath: s3://bucket/prefix")


def _rule_problems(spec: JobSpec) -> Iterator[Problem]:
    for field in ("rules", "profiler_rules"):
        for index, rule in enumerate(getattr(spec, field)):
            if rule.get("RuleEvaluatorImage") == _NO_IMAGE:
                yield Problem(
                    path=(field, index, "RuleEvaluatorImage"),
                    what="the image of the rule depends on the region",
                    fix='write what sagemaker.image_uris.retrieve("debugger", REGION) returns',
                )
