"""Fields that a job on machines requires, and fields that a serverless job excludes.

Source: the model made the required fields optional only when it added ServerlessJobConfig; the
excluded fields are those of Terraform's aws_sagemaker_training_job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.request.validation.model_limits import missing
from launcher.client.request.validation.violations import Violation, constraint_message

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

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


def needs_its_parts(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find missing parts that only a serverless job may omit."""
    if SERVERLESS in request:
        return
    for part in _PARTS:
        if part not in request:
            yield missing((part,))


def excludes_what_it_chooses(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find fields about machines in a serverless job, which has none."""
    if SERVERLESS not in request:
        return
    for name in _EXCLUDED:
        if value := request.get(name):
            yield Violation(
                path=(name,),
                what=f"{name} is given for a serverless job",
                fix=f"remove {name}, or {SERVERLESS}",
                aws_message=constraint_message(
                    (name,), value, f"Member must not be set with {SERVERLESS}"
                ),
            )
