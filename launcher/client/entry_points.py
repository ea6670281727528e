"""Entry points, through which other packages add to Launcher."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.errors import PlatformError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def load(point: EntryPoint) -> Any:
    """Return what an entry point names; raise PlatformError if it cannot be loaded."""
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise PlatformError(
            f"the entry point {point.name} = {point.value} cannot be loaded: {error}; install its "
            "package anew, or remove it"
        ) from error
