"""Lengths of the served datasets: known ones, and questions that no worker has answered yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from launcher.data.control import messages as m
from launcher.data.control import slot_of
from launcher.data.dispatcher.lease_scheduler import MAX_DEATHS
from launcher.data.order import is_listed, not_served
from launcher.errors import DataError

#: Seconds from the first recorded death until a question is given up, if each worker slot has had
#: MAX_DEATHS. Workers that die faster than that are given up by their host.
DYING_SECONDS = 30.0


class DatasetLengths:
    """Dataset lengths, each requested from the workers once.

    datasets: those that the job lists; none if the workers decide.
    """

    def __init__(self, datasets: Collection[str]) -> None:
        self._datasets = datasets
        self._known: dict[str, m.Length] = {}
        self._askers: dict[str, set[str]] = {}
        self._asked_at = 0.0  # time of the first pending question
        self._dead: dict[str, float] = {}  # worker -> time of its death since then

    def check(self, dataset: str) -> None:
        """Raise DataError for a dataset that the job does not serve."""
        if not is_listed(dataset, self._datasets):
            raise DataError(not_served(dataset, self._datasets))

    @property
    def asked(self) -> list[m.Describe]:
        """The questions that no worker has answered yet."""
        return [m.Describe(dataset=dataset) for dataset in self._askers]

    def ask(self, asker: str, dataset: str, now: float) -> m.Length | None:
        """Return the answer, or None if the workers must be asked first."""
        if not is_listed(dataset, self._datasets):
            return m.Length(dataset=dataset, length=-1, error=not_served(dataset, self._datasets))
        if dataset not in self._known:
            if not self._askers:
                self._asked_at = now
            self._askers.setdefault(dataset, set()).add(asker)
        return self._known.get(dataset)

    def answer(self, length: m.Length) -> set[str]:
        """Record the first worker's answer, which holds for all; return who waits for it."""
        askers = self._askers.pop(length.dataset, set())
        if askers:
            self._known[length.dataset] = length
            self._dead.clear()
        return askers

    def record_death(self, worker: str, moment: float) -> None:
        """Record that a worker has died, perhaps because of a pending question."""
        if self._askers and moment >= self._asked_at:
            self._dead[worker] = moment

    def record_reconnect(self, worker: str) -> None:
        """Forget a recorded death: the worker has reconnected, so it had not died."""
        self._dead.pop(worker, None)

    def is_fatal_to(self, workers: Collection[str], now: float) -> bool:
        """Return True if building the dataset has repeatedly killed each of these workers."""
        deaths = Counter(map(slot_of, self._dead))
        is_sure = all(deaths[slot_of(worker)] >= MAX_DEATHS for worker in workers)
        return bool(workers) and is_sure and now - min(self._dead.values()) >= DYING_SECONDS

    def give_up(self, message: str, *, unavailable: bool = False) -> list[tuple[str, m.Length]]:
        """Drop all pending questions; return (asker, answer) for everyone who waits.

        unavailable: no worker is connected to answer.
        """
        askers, self._askers = self._askers, {}
        self._dead.clear()
        return [
            (name, m.Length(dataset=dataset, length=-1, error=message, unavailable=unavailable))
            for dataset, names in askers.items()
            for name in names
        ]
