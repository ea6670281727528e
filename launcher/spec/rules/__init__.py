"""Every rule that a job has to keep; all that it breaks is reported at once."""

from launcher.spec.rules.checking import check, examine
from launcher.spec.rules.source import Source

__all__ = ["check", "examine", "Source"]
