"""Rules for monitoring: TensorBoard, SageMaker's debugger and profiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.rules.channel_rules import uri_problems
from launcher.errors import Problem

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
