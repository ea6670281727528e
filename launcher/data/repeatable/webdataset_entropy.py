"""Seed webdataset's shuffles, which take their seeds from the process id and the clock.

Its modules get an `os` and a `time` of their own, which give numbers of the active stream while
dataset code runs, and are the real ones otherwise.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import sys
import time
from collections.abc import Callable
from types import ModuleType

from launcher.data.repeatable.entropy_stream import active_stream

#: Its package.
WEBDATASET = "webdataset"
#: Its modules that make generators, and the file from which one of them reads entropy.
_MODULES = (f"{WEBDATASET}.filters", f"{WEBDATASET}.shardlists")
_DEVICES = ("/dev/random", "/dev/urandom")


def patch_webdataset() -> None:
    """Connect webdataset to the active stream if it has been imported."""
    if _MODULES[-1] in sys.modules:
        _connect()


@functools.cache
def _connect() -> None:
    filters, shard_lists = (sys.modules[name] for name in _MODULES)
    _replace(filters, os=_Replaced(os, getpid=_draw_id), time=_Replaced(time, time=_draw_seconds))
    _replace(
        shard_lists,
        os=_Replaced(os, getpid=_draw_id, urandom=_draw_bytes),
        time=_Replaced(time, time_ns=_draw_id),  # its time() measures intervals
        open=_open,
    )


def _replace(module: ModuleType, **names: object) -> None:
    vars(module).update(names)


class _Replaced(ModuleType):
    """A module in which some functions are replaced."""

    def __init__(self, module: ModuleType, **functions: object) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(functions)
        self._module = module

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)


def _draw_id() -> int:
    stream = active_stream()
    return os.getpid() if stream is None else stream.draw_int(31)


def _draw_seconds() -> float:
    return time.time() if active_stream() is None else 0.0


def _draw_bytes(size: int) -> bytes:
    stream = active_stream()
    return os.urandom(size) if stream is None else stream.draw(size)


def _open(file: object, *arguments: object, **named: object) -> object:
    stream = active_stream()
    if file in _DEVICES and stream is not None:
        return io.BytesIO(stream.draw(64))
    real: Callable[..., object] = builtins.open
    return real(file, *arguments, **named)
