"""Metrics extracted from a job's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetricDefinition:
    """A metric `name`, read from the log as the first group of `regex`.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricDefinition.html
    """

    name: str
    regex: str
