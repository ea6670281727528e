"""Validation rules for jobs; all violations are reported at once."""

from launcher.client.spec.rules.check_spec import Limits, check, examine, no_limits
from launcher.client.spec.rules.source_rules import SourceFiles

__all__ = ["Limits", "check", "examine", "no_limits", "SourceFiles"]
