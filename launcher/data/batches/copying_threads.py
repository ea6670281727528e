"""Threads with which torch copies tensors, where dataset code is limited to one.

A sum on two threads differs in its last bits, but a copy is the same with any number of them. A
fork keeps to one: its OpenMP waits for ever for threads that only its parent has.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar

#: torch's number of threads before dataset code was limited to one; 1 where it is not limited.
torch_threads: ContextVar[int] = ContextVar("torch's threads", default=1)

_importer = os.getpid()


@contextlib.contextmanager
def copying_threads() -> Iterator[None]:
    """Let torch copy with the threads that it had before dataset code was limited to one."""
    if (count := torch_threads.get()) == 1 or os.getpid() != _importer:
        yield
        return
    torch = sys.modules["torch"]
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(1)
