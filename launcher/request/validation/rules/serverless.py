"""What a job on machines must say, and what a serverless job must not.

Source: the model marks these parts as optional only since it has ServerlessJobConfig; what a
serverless job excludes is the list of Terraform's aws_sagemaker_training_job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.request.validation.limits import missing
from launcher.request.validation.violations import Violation, constraint_message

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


def needs_its_parts(request: Mapping[str, Any]) -> Iterator[Violation]:
    """The parts that only a serverless job may leave out."""
    if SERVERLESS in request:
        return
    for part in _PARTS:
        if part not in request:
            yield missing((part,))


def excludes_what_it_chooses(request: Mapping[str, Any]) -> Iterator[Violation]:
    """A serverless job has no machines, and nothing that is about them."""
    if SERVERLESS not in request:
        return
    for name in _EXCLUDED:
        if request.get(name):
            yield Violation(
                path=(name,),
                what=f"{name} is given for a serverless job",
                fix=f"remove {name}, or {SERVERLESS}",
                aws_message=constraint_message(
                    (name,), request[name], f"Member must not be set with {SERVERLESS}"
                ),
            )
