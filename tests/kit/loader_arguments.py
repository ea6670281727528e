"""Arguments of a DataLoader, where a test has its options beside the others."""

from dataclasses import fields
from typing import Any

from launcher.data import LoaderOptions

_OPTIONS = [field.name for field in fields(LoaderOptions)]


def loader_arguments(**given: Any) -> dict[str, Any]:
    """Return the arguments with the options among them in their value."""
    options = {name: given.pop(name) for name in _OPTIONS if name in given}
    return {**given, "options": LoaderOptions(**options)} if options else given
