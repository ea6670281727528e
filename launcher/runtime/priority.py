"""The priority of data processes beside a trainer."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: Niceness of a worker beside a trainer, so that it uses only spare CPU time (sched(7)).
_NICENESS = 10


def yield_to_trainer() -> None:
    """Lower the priority of this process, and of those that it starts."""
    os.nice(_NICENESS)
    # Where the kernel groups processes by session, only the group's niceness counts.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICENESS))
