"""The probe: a job of two small hosts that settles what AWS's documents leave open.

It runs on any session; `inside` is the program of its hosts, `answers` reads their results.
"""

from __future__ import annotations

from launcher.client.probe.platforms import ask_this_machine, request_for_aws
from launcher.client.probe.questions import answered

__all__ = ["ask_this_machine", "request_for_aws", "answered"]
