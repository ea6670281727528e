"""The metric of each job: the wait for data, which SageMaker reads from the events in the logs.

CloudWatch then has it under the job's name, beside the use of its hosts, for dashboards and for
readers without access to the logs. Launcher itself reads the events.
"""

from __future__ import annotations

from collections.abc import Mapping

#: The share of the time that a rank waited for its data, in its epoch so far.
WAIT_METRIC = "data/wait_share"
#: Finds it in the events data_progress, data_epoch and data_verdict.
WAIT_PATTERN = r"launcher: data_[a-z]+ .* wait_share=([0-9.]+)"


def is_wait_metric(definition: Mapping[str, object]) -> bool:
    """Return whether a MetricDefinition is Launcher's, and not one of the user's with its name."""
    return (definition.get("Name"), definition.get("Regex")) == (WAIT_METRIC, WAIT_PATTERN)


def wait_share(wait: float, total: float) -> float:
    """Return the share with the digits that the pattern reads, which are none of an exponent."""
    return round(wait / total, 4) if total > 0 else 0.0
