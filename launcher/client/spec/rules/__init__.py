"""Validation rules for jobs; all violations are reported at once."""

from launcher.client.spec.rules.check_spec import check, examine
from launcher.client.spec.rules.source_rules import SourceFiles

__all__ = ["check", "examine", "SourceFiles"]
