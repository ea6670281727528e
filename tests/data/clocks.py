"""A clock that stands still for one module."""

from types import ModuleType, SimpleNamespace

import pytest


def stopped(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> SimpleNamespace:
    """The time as the module reads it: `now` seconds, until a test changes that."""
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(module, "time", clock)
    return clock
