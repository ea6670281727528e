"""Request fields that have no effect on a local job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.client.sessions.local.toolkit_mode import is_script_mode

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest

#: The job's notes list those that the request sets.
_IGNORED = (
    "VpcConfig",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "RetryStrategy",
    "ResourceConfig.VolumeKmsKeyId",
    "ResourceConfig.KeepAlivePeriodInSeconds",
    "ResourceConfig.TrainingPlanArn",
    "ResourceConfig.InstancePlacementConfig",
    "OutputDataConfig.KmsKeyId",
    "AlgorithmSpecification.TrainingImageConfig",
    "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries",
    "ExperimentConfig",
    "TensorBoardOutputConfig",
    "DebugHookConfig",
    "DebugRuleConfigurations",
    "ProfilerConfig",
    "ProfilerRuleConfigurations",
    "RemoteDebugConfig",
    "SessionChainingConfig",
    "InfraCheckConfig",
)
_IMAGE_IS_EMULATED = "the image is not run: its script mode is emulated in this machine's Python"


def ignored_field_notes(request: TrainingJobRequest) -> list[str]:
    """Return a note for each part of the request that a local job ignores."""
    notes = [f"{field} has no effect on a local job" for field in _IGNORED if _at(request, field)]
    return [*notes, _IMAGE_IS_EMULATED] if is_script_mode(request) else notes


def _at(request: TrainingJobRequest, field: str) -> object:
    top, _, below = field.partition(".")
    part: object = request.get(top)
    if not below:
        return part
    return part.get(below) if isinstance(part, Mapping) else None
