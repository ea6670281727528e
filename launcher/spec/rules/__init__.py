"""Validation rules for jobs; all violations are reported at once."""

from launcher.spec.rules.checking import check, examine
from launcher.spec.rules.source import Source

__all__ = ["check", "examine", "Source"]
