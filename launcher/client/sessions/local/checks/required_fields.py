"""Check for the required fields, without which a request cannot be checked further."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from launcher.errors import Problem

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest

_REQUEST = (
    "TrainingJobName",
    "AlgorithmSpecification",
    "OutputDataConfig",
    "ResourceConfig",
    "StoppingCondition",
)
_GROUP = ("InstanceGroupName", "InstanceType", "InstanceCount")
_CHANNEL = ("ChannelName", "DataSource")
_METRIC = ("Name", "Regex")


def check_fields(request: TrainingJobRequest) -> Iterator[Problem]:
    """Yield a problem for each required field that is absent."""
    yield from _absent([request], _REQUEST, "the request")
    algorithm = request.get("AlgorithmSpecification", {})
    resources = request.get("ResourceConfig", {})
    yield from _absent(algorithm.get("MetricDefinitions"), _METRIC, "MetricDefinitions")
    yield from _absent(resources.get("InstanceGroups"), _GROUP, "InstanceGroups")
    yield from _absent(request.get("InputDataConfig"), _CHANNEL, "InputDataConfig")


def _absent(
    parts: Iterable[Mapping[str, object]] | None, fields: Iterable[str], where: str
) -> Iterator[Problem]:
    for number, part in enumerate(parts or (), start=1):
        for field in fields:
            if field not in part:
                yield Problem(
                    what=f"there is no {field}",
                    where=f"{where}, entry {number}",
                    fix=f"give {field}",
                )
