"""The verdict on 40 jobs with planted causes, whose figures a simulation of their batches gives.

The simulation knows nothing of the verdict's arithmetic: workers prepare batch after batch, one
link carries them, a memory holds them, and a rank takes them in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from launcher.shared import Cause, DataWait, judge_wait, observe

SIZE = 1e6


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A job whose hosts have one worker each. prepare, compute, send: seconds of a batch.

    ahead: batches that the memory holds. slow: of the first host. every, heavy: one batch in so
    many takes so much longer.
    """

    workers: int = 4
    prepare: float = 0.1
    compute: float = 0.1
    send: float = 1e-4
    ahead: int = 64
    epochs: int = 2
    steps: int = 200
    slow: float = 1.0
    every: int = 0
    heavy: float = 1.0
    size: float = SIZE

    def verdict(self) -> DataWait:
        job = Simulation(self)
        for _ in range(self.epochs):
            job.run_epoch()
        rates = observe(hosts=job.hosts(), ranks={("0", "s"): job.rank}, receivers=job.receivers())
        assert rates is not None
        verdict = judge_wait(rates, "data_group")
        assert verdict is not None
        return verdict


class Simulation:
    def __init__(self, job: Planted) -> None:
        self.job = job
        names = ("steps", "epochs", "wait", "total", "startup", "first_waits")
        self.rank = dict.fromkeys(names, 0.0)
        self._preparing = [0.0] * job.workers
        self._blocked = [0.0] * job.workers
        self._prepared = [0] * job.workers
        self._longest = [0.0] * job.workers
        self._most_held = 0
        self._now = 0.0

    def run_epoch(self) -> None:
        job, began = self.job, self._now
        free, taken = [began] * job.workers, [began] * job.steps
        arrived, link, ready = [began] * job.steps, began, began
        for step in range(job.steps):
            worker = min(range(job.workers), key=free.__getitem__)
            took = job.prepare * (job.slow if worker == 0 else 1.0)
            took *= job.heavy if job.every and step % job.every == 0 else 1.0
            done = free[worker] + took
            room = taken[step - job.ahead] if step >= job.ahead else began
            starts = max(done, link, room)
            link = arrived[step] = starts + job.send
            free[worker] = starts
            self._preparing[worker] += took
            self._longest[worker] = max(self._longest[worker], took)
            self._blocked[worker] += starts - done
            self._prepared[worker] += 1
            taken[step] = max(ready, arrived[step])
            waited = taken[step] - ready
            self.rank["wait"] += waited
            if step == 0:
                self.rank["startup" if self.rank["epochs"] == 0 else "first_waits"] += waited
            ready = taken[step] + job.compute
        self._most_held = max(self._most_held, self._held(arrived, taken))
        self.rank["steps"] += job.steps
        self.rank["epochs"] += 1
        self.rank["total"] += ready - began
        self._now = ready

    @staticmethod
    def _held(arrived: list[float], taken: list[float]) -> int:
        """The most batches that had arrived and not been taken."""
        events = sorted([(at, 1) for at in arrived] + [(at, -1) for at in taken])
        held = most = 0
        for _, change in events:
            held += change
            most = max(most, held)
        return most

    def hosts(self) -> dict[str, dict[str, float]]:
        return {
            f"algo-{number + 1}": {
                "batches": self._prepared[number],
                "bytes": self._prepared[number] * self.job.size,
                "prepared": self._prepared[number],
                "preparing": self._preparing[number],
                "blocked": self._blocked[number],
                "cpu": self._preparing[number],
                "starved": 0.0,
                "cpus": 1,
                "longest": self._longest[number],
                "most_workers": 1,
            }
            for number in range(self.job.workers)
        }

    def receivers(self) -> dict[str, dict[str, float]]:
        budget, held = self.job.ahead * self.job.size, self._most_held * self.job.size
        return {"algo-9": {"cpu": 0.0, "budget": budget, "high": held}}


#: Workers at their limit: 4 of them prepare 40 batches a second, and the rank takes more.
WORKERS = [Planted(compute=each) for each in (0.003, 0.005, 0.01, 0.015, 0.02)] + [
    Planted(workers=each, compute=0.5 * 0.1 / each) for each in (1, 2, 8, 16, 32)
]
#: A rank that is busy itself.
COMPUTE = [Planted(compute=each) for each in (0.03, 0.05, 0.1, 0.2, 0.5)] + [
    Planted(workers=each, compute=0.1) for each in (2, 8, 16)
]
#: Workers that have time, and batches that do not get through.
SENDING = [Planted(prepare=0.02, compute=0.02, send=each) for each in (0.03, 0.04, 0.06)] + [
    Planted(workers=8, prepare=each, compute=0.01, send=0.05) for each in (0.02, 0.05, 0.1)
]
MEMORY = [
    Planted(workers=8, prepare=0.1, compute=0.013, ahead=each, every=5, heavy=3)
    for each in (1, 2, 3, 4)
]
STARTS = [
    Planted(epochs=20, steps=each, workers=20, prepare=1.0, compute=0.2) for each in (12, 20, 30)
]
SLOW = [Planted(workers=4, prepare=0.02, compute=0.06, slow=each, ahead=8) for each in (30, 60, 90)]
SHORT = [Planted(epochs=1, steps=5), Planted(epochs=1, steps=20, prepare=0.001, compute=0.001)]
#: Nothing is at its limit for long: heavy batches, which a verdict must not take for a network.
UNCLEAR = [
    Planted(workers=4, prepare=0.01, compute=0.03, every=50, heavy=each, ahead=6)
    for each in (300, 500)
] + [Planted(workers=8, prepare=0.01, compute=0.02, every=40, heavy=200, size=10) for _ in (1, 2)]
CASES = [
    *((job, Cause.WORKERS) for job in WORKERS),
    *((job, Cause.NOTHING) for job in COMPUTE),
    *((job, Cause.SENDING) for job in SENDING),
    *((job, Cause.MEMORY) for job in MEMORY),
    *((job, Cause.EPOCH_STARTS) for job in STARTS),
    *((job, Cause.SLOW_HOST) for job in SLOW),
    *((job, Cause.TOO_SHORT) for job in SHORT),
    *((job, Cause.UNKNOWN) for job in UNCLEAR),
]


@pytest.mark.parametrize(
    ("job", "bound"), CASES, ids=[f"{bound.value}-{n}" for n, (_, bound) in enumerate(CASES)]
)
def test_a_planted_cause_is_named(job: Planted, bound: Cause) -> None:
    found = job.verdict()
    assert found.bound is bound, found
    assert found.margin >= 0
    if bound is Cause.WORKERS:
        assert found.more is not None
        assert 0 < found.more <= 40 * job.workers
    if job.size < 1000:
        assert "network" not in found.text


def test_there_are_forty() -> None:
    assert len(CASES) == 40
