"""Registry of data engines: built-in ones are listed here, others are entry points."""

from __future__ import annotations

import importlib

from launcher.data.engines.base import DataEngine
from launcher.errors import DataError
from launcher.shared import DEFAULT_ENGINE, ENGINE_ENTRY_POINTS, TF_ENGINE

_OURS = {
    DEFAULT_ENGINE: "launcher.data.engines.service_engine:ServiceEngine",
    TF_ENGINE: "launcher.data.engines.tf_engine:TfEngine",
}


def find_engine(name: str) -> DataEngine:
    """Create the engine of that name; raises DataError when this Python has none."""
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        engine: DataEngine = getattr(importlib.import_module(module), attribute)()
        return engine
    return _find_other(name)


def _find_other(name: str) -> DataEngine:
    from importlib.metadata import entry_points  # reads every package's folder: 20 ms and more

    others = entry_points(group=ENGINE_ENTRY_POINTS)
    if name not in others.names:
        known = ", ".join(sorted({*_OURS, *others.names}))
        raise DataError(
            f'no data engine "{name}" is installed, only {known}: install the package that has it '
            f"as an entry point of {ENGINE_ENTRY_POINTS}"
        )
    engine: DataEngine = others[name].load()()
    return engine
