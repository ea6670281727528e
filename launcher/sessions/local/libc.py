"""The C library, for what Python does not offer (in its older versions)."""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: object) -> None:
    """Call a function that gives 0 when it works; raises OSError with the kernel's word."""
    if getattr(_LIBC, function)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}")
