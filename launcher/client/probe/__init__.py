"""The probe: a job of two small hosts that measures what AWS's documentation leaves open.

An extra at the edge of the product: only `launcher probe` imports it. It runs on any session;
`inside` is the program of its hosts, `probe_answers` reads their results.
"""

from __future__ import annotations

from launcher.client.probe.platforms import probe_locally, request_for_aws
from launcher.client.probe.questions import compare_answers

__all__ = ["probe_locally", "request_for_aws", "compare_answers"]
