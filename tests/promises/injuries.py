"""The proof that a fault hit somebody at work, and how a process is stopped for a while.

The proof is what the victim itself was doing (the dataset notes in the worker's own process that it
has begun a sample, which it does for a lease only; the dispatcher lists the leases of a worker that
left), what the kernel says (connections reset, packets held back), or what a rank had received.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from players import Player
from small_job import SmallJob


@dataclass(frozen=True)
class Injury:
    """victim: in words. was_effective: to be asked when the job is over."""

    victim: str
    was_effective: Callable[[], bool]


def stop(job: SmallJob, player: Player, seconds: float) -> None:
    player.send(signal.SIGSTOP)
    while player.is_living and not _is_stopped(player.pid):
        time.sleep(0.001)
    job.later(seconds, lambda: player.send(signal.SIGCONT))


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
