"""The last values of a described job's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared import WAIT_METRIC, is_wait_metric

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription


def final_metrics(description: TrainingJobDescription) -> dict[str, float]:
    """Return the last value of each metric that the user of a described job defined."""
    defined = description.get("AlgorithmSpecification", {}).get("MetricDefinitions", ())
    own = WAIT_METRIC if any(map(is_wait_metric, defined)) else None
    return {
        metric["MetricName"]: metric["Value"]
        for metric in description.get("FinalMetricDataList", [])
        if "MetricName" in metric and "Value" in metric and metric["MetricName"] != own
    }
