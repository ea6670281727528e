"""Checks of what works here and what does not, each with a fix; nothing is created, here or on AWS.

The three parts: this machine, AWS as far as it is visible from here, and a job file.
"""

from __future__ import annotations

from launcher.client.doctor.check_result import CheckResult, CheckSection, Checkup, Level
from launcher.client.doctor.examination import examine, examine_aws

__all__ = ["examine", "examine_aws", "Checkup", "CheckResult", "Level", "CheckSection"]
