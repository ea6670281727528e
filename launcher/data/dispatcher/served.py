"""What the dispatcher knows of the datasets that a job serves."""

from __future__ import annotations

from collections.abc import Collection

from launcher.data.control import messages as m
from launcher.errors import DataError


class Lengths:
    """The lengths of datasets, asked of the workers once. datasets: those that the job serves."""

    def __init__(self, datasets: Collection[str]) -> None:
        self._datasets = datasets
        self._known: dict[str, m.Length] = {}
        self._askers: dict[str, set[str]] = {}

    def check(self, dataset: str) -> None:
        """Raises DataError for a dataset that the job does not serve."""
        if dataset not in self._datasets:
            raise DataError(f"the dataset {dataset!r} is not served by this job")

    @property
    def asked(self) -> list[m.Describe]:
        """Questions that no worker has answered yet."""
        return [m.Describe(dataset=dataset) for dataset in self._askers]

    def ask(self, asker: str, dataset: str) -> m.Length | None:
        """The answer, or None when it must be asked of the workers first."""
        if dataset not in self._datasets:
            error = (
                f"the dataset {dataset!r} is not served by this job; it serves "
                f"{list(self._datasets)}: add it to data_service.datasets"
            )
            return m.Length(dataset=dataset, length=-1, error=error)
        if dataset not in self._known:
            self._askers.setdefault(dataset, set()).add(asker)
        return self._known.get(dataset)

    def answer(self, length: m.Length) -> set[str]:
        """Note the first worker's answer, which is the same for all; returns who waits for it."""
        askers = self._askers.pop(length.dataset, set())
        if askers:
            self._known[length.dataset] = length
        return askers

    def give_up(self, message: str) -> list[tuple[str, m.Length]]:
        """Nobody can answer: (asker, answer) for all who wait."""
        askers, self._askers = self._askers, {}
        return [
            (name, m.Length(dataset=dataset, length=-1, error=message, unavailable=True))
            for dataset, names in askers.items()
            for name in names
        ]
