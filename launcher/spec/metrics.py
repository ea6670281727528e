"""Metrics that are read from a job's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricDefinition:
    """A number to read from the log: the first group of `regex`, under `name`.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricDefinition.html
    """

    name: str
    regex: str
