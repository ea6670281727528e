"""Ranks with a network each, between which a link of tbf's is: started here, and timed inside.

Usage: python linked_ranks.py MEGABITS, with the variables of inside/linked_steps.py. The process
moves to a network of its own, so that it is one for each measurement.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests" / "promises"))

from cables import Cables

#: Enough that late timers of a virtual machine cost no bandwidth, and little of what is sent.
_BURST = "64kb"
_SCRIPT = Path(__file__).parent / "inside" / "linked_steps.py"


def main() -> int:
    ranks, cores = int(os.environ["BENCH_RANKS"]), sorted(os.sched_getaffinity(0))
    cables = Cables.lay(f"rank-{rank}" for rank in range(ranks))
    started = []
    for rank, host in enumerate(cables.networks):
        cables.slow(host, megabits=float(sys.argv[1]), burst=_BURST)
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": next(iter(cables.addresses.values())),
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        each = subprocess.Popen(
            [sys.executable, str(_SCRIPT)],
            env={**os.environ, **variables},
            preexec_fn=partial(_enter, cables, host, cores[rank % len(cores)]),
        )
        started.append(each)
    return max(abs(each.wait()) for each in started)


def _enter(cables: Cables, host: str, core: int) -> None:
    cables.enter(host)
    os.sched_setaffinity(0, {core})


if __name__ == "__main__":
    sys.exit(main())
