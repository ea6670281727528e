"""The probe: a job of two small hosts that measures what AWS's documentation leaves open.

An extra at the edge of the product: only `launcher probe` imports it. It runs on any session;
`inside` is the program of its hosts, `probe_answers` reads their results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.client.probe.inside.redaction import redacted
    from launcher.client.probe.platforms import probe_locally, request_for_aws
    from launcher.client.probe.probe_job import probe_spec, program
    from launcher.client.probe.questions import compare_answers

__getattr__ = open_door(__name__)
