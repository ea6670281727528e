"""Runs failure schedules: `python trial.py SEED...`, or the seeds that come as lines on stdin.

Each gives one line of JSON on stdout: what happened when, which faults were effective, whether its
way to read was to be seen, and what the verdict objects to. A process of its own, because a network
of hosts is for one with one thread.
"""

from __future__ import annotations

import importlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY)]

from cables import Cables  # noqa: E402 - found beside the package
from evidence import was_seen  # noqa: E402
from faults import Injury, commit  # noqa: E402
from schedule import Fault, Schedule, draw  # noqa: E402
from small_job import DATA_HOSTS, TRAIN_HOSTS, JobBroke, SmallJob  # noqa: E402
from verdict import objections  # noqa: E402

#: Seconds for one schedule: many times what it needs, for a machine that is busy.
_LIMIT = 90.0
#: Seconds after which the next fault does not wait for progress any more.
_IMPATIENCE = 0.8
#: What the job's processes import; their own modules are run from the start in each.
_IMPORTS = (
    "asyncio",
    "numpy.random",
    "launcher.data.control.connection",
    "launcher.data.dispatcher.lease_scheduler",
    "launcher.data.loader",
    "launcher.data.memory.slabs",
)


class Trial:
    """One schedule, from its first process to its verdict."""

    def __init__(self, schedule: Schedule, folder: Path, cables: Cables) -> None:
        self.schedule = schedule
        self.job = SmallJob(schedule, folder, cables)
        self.timeline: list[str] = []
        self.injuries: list[tuple[Fault, Injury]] = []
        self._began = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Everything about it, as JSON."""
        wrong: list[str] = []
        try:
            self.job.start()
            self._play()
            self._note("the ranks have ended")
            self._settle()
            self.job.close()
            wrong = [f"{player} is left" for player in self.job.remains()]
            wrong += objections(
                self.schedule, [self.job.received(n) for n in range(len(self.job.generations))]
            )
        except JobBroke as error:
            wrong = [str(error)]
        finally:
            self._settle()
            self.job.kill()
        return {
            "seed": self.schedule.seed,
            "seconds": round(time.monotonic() - self._began, 2),
            "effective": [f.kind.value for f, injury in self.injuries if injury.was_effective()],
            "committed": [fault.kind.value for fault, _ in self.injuries],
            "reading": self.schedule.reading.value if was_seen(self.job) else "not seen",
            "objections": wrong,
            "timeline": self.timeline,
            "logs": self.job.logs() if wrong else "",
        }

    def _play(self) -> None:
        job = self.job
        pending = list(self.schedule.faults)
        then, before = time.monotonic(), 0
        while not job.is_over:
            job.look()
            if time.monotonic() - self._began > _LIMIT:
                raise JobBroke(f"the job was not over after {_LIMIT:.0f} s")
            received = job.batches_received()
            waited = received - before, time.monotonic() - then
            if pending and received and _is_due(pending[0], *waited):
                self._commit(pending.pop(0), received)
                then, before = time.monotonic(), received

    def _commit(self, fault: Fault, received: int) -> None:
        injury = commit(self.job, fault)
        if injury is not None:
            self.injuries.append((fault, injury))
        self._note(f"{received} batches received; {fault}: {injury.victim if injury else 'nobody'}")

    def _settle(self) -> None:
        """Let go on what is still stopped, cut or slow."""
        for host in (*self.job.data_hosts, *self.job.train_hosts):
            self.job.cables.mend(host)
        self.job.resume()

    def _note(self, words: str) -> None:
        self.timeline.append(f"{time.monotonic() - self._began:.2f} s: {words}")


def _is_due(fault: Fault, batches: int, seconds: float) -> bool:
    return batches >= fault.batches or seconds > _IMPATIENCE


def run_all(seeds: Iterable[str]) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # after killing what was started
    for module in _IMPORTS:
        importlib.import_module(module)
    cables = Cables.lay((*DATA_HOSTS, *TRAIN_HOSTS))
    for seed in seeds:
        folder = Path(tempfile.mkdtemp(prefix="schedule-"))
        try:
            print(json.dumps(Trial(draw(int(seed)), folder, cables).run()), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    run_all(sys.argv[1:] or sys.stdin)
