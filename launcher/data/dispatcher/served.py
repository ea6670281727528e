"""What the dispatcher knows of the datasets that a job serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from launcher.data.control import messages as m
from launcher.data.control.names import place_of
from launcher.data.dispatcher.ledger import MOST_DEATHS
from launcher.errors import DataError

#: Seconds from the first of MOST_DEATHS in each place over a question until it is given up. Workers
#: that die faster are their host's to give up.
DYING_SECONDS = 30.0


class Lengths:
    """The lengths of datasets, asked of the workers once. datasets: those that the job serves."""

    def __init__(self, datasets: Collection[str]) -> None:
        self._datasets = datasets
        self._known: dict[str, m.Length] = {}
        self._askers: dict[str, set[str]] = {}
        self._asked_at = 0.0  # the first question that is open
        self._dead: dict[str, float] = {}  # workers since then, and when

    def check(self, dataset: str) -> None:
        """Raises DataError for a dataset that the job does not serve."""
        if dataset not in self._datasets:
            raise DataError(f"the dataset {dataset!r} is not served by this job")

    @property
    def asked(self) -> list[m.Describe]:
        """Questions that no worker has answered yet."""
        return [m.Describe(dataset=dataset) for dataset in self._askers]

    def ask(self, asker: str, dataset: str, now: float) -> m.Length | None:
        """The answer, or None when it must be asked of the workers first."""
        if dataset not in self._datasets:
            error = (
                f"the dataset {dataset!r} is not served by this job; it serves "
                f"{list(self._datasets)}: add it to data_service.datasets"
            )
            return m.Length(dataset=dataset, length=-1, error=error)
        if dataset not in self._known:
            if not self._askers:
                self._asked_at = now
            self._askers.setdefault(dataset, set()).add(asker)
        return self._known.get(dataset)

    def answer(self, length: m.Length) -> set[str]:
        """Note the first worker's answer, which is the same for all; returns who waits for it."""
        askers = self._askers.pop(length.dataset, set())
        if askers:
            self._known[length.dataset] = length
            self._dead.clear()
        return askers

    def note_death(self, worker: str, moment: float) -> None:
        """A worker has died, perhaps of what is asked."""
        if self._askers and moment >= self._asked_at:
            self._dead[worker] = moment

    def note_return(self, worker: str) -> None:
        """A worker is there: if it was lost, it had not died."""
        self._dead.pop(worker, None)

    def are_deadly(self, workers: Collection[str], now: float) -> bool:
        """Whether none of these workers can be expected to live until it has answered."""
        deaths = Counter(map(place_of, self._dead))
        is_sure = all(deaths[place_of(worker)] >= MOST_DEATHS for worker in workers)
        return bool(workers) and is_sure and now - min(self._dead.values()) >= DYING_SECONDS

    def give_up(self, message: str, *, unavailable: bool = False) -> list[tuple[str, m.Length]]:
        """Nobody can answer: (asker, answer) for all who wait.

        unavailable: that is because nobody is there.
        """
        askers, self._askers = self._askers, {}
        self._dead.clear()
        return [
            (name, m.Length(dataset=dataset, length=-1, error=message, unavailable=unavailable))
            for dataset, names in askers.items()
            for name in names
        ]
