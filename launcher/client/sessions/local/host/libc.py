"""Calls to the C library for features that Python, or its older versions, does not offer."""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: object) -> None:
    """Call a function that returns 0 on success; on failure, raise OSError with errno's message."""
    if getattr(_LIBC, function)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}")
