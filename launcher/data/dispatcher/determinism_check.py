"""Determinism check: some batches are prepared again by another worker. Pure.

The first content of each is kept until the second one arrives; `BatchContent` compares them. The
last batch of an epoch read is leased once all others are compared, and its worker compares it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from launcher.data.control import host_of
from launcher.data.order import BatchContent, BatchPlan, chosen_steps, is_chosen

Batch = tuple[str, int]
#: Polls after which a comparison is given up whose first content was lost with its worker.
_LOST_AFTER = 20


@dataclass(eq=False)
class _Pending:
    """A batch that was prepared once. second: the worker that is to prepare it again."""

    first: str
    content: BatchContent
    second: str | None = None


@dataclass(eq=False)
class _Comparisons:
    """The comparisons of one epoch read: steps that arrived, are to be compared, and are."""

    plan: BatchPlan
    arrived: set[int] = field(default_factory=set)
    to_compare: set[int] = field(default_factory=set)
    compared: set[int] = field(default_factory=set)
    stuck: int = 0  # polls at which the last step waited for a comparison that nobody makes

    def add(self, step: int) -> None:
        """Record a batch that was prepared; it may be known already."""
        self.arrived.add(step)
        if not is_chosen(self.plan, step):
            return
        if step == self.plan.steps - 1:  # its worker has compared it
            self.compared.add(step)
        elif step not in self.compared:
            self.to_compare.add(step)

    @property
    def have_arrived(self) -> bool:
        """True if all batches but the last one that may be compared have arrived."""
        return self.arrived.issuperset(chosen_steps(self.plan)[: self.plan.steps - 1])

    @property
    def are_done(self) -> bool:
        """True if all batches but the last one are compared that are to be."""
        return self.have_arrived and not self.to_compare


class DeterminismCheck:
    """The batches that were prepared once and wait for their second preparation."""

    def __init__(self) -> None:
        self._pending: dict[Batch, _Pending] = {}
        self._asked: Counter[str] = Counter()
        self._comparisons: dict[str, _Comparisons] = {}

    def open(self, run: str, plan: object) -> bool:
        """Begin to compare an epoch read; return whether its last batch is to wait."""
        if not isinstance(plan, BatchPlan) or plan.steps < 2 or not chosen_steps(plan):
            return False
        self._comparisons.setdefault(run, _Comparisons(plan))
        return True

    def record_arrival(self, run: str, step: int) -> bool:
        """Record a batch that has arrived; return whether the last one may be leased."""
        if (comparisons := self._comparisons.get(run)) is None:
            return False
        comparisons.add(step)
        return comparisons.are_done

    def add(self, batch: Batch, worker: str, content: BatchContent) -> None:
        """Record a first preparation."""
        run, step = batch
        if (comparisons := self._comparisons.get(run)) is None or step in comparisons.compared:
            return
        comparisons.to_compare.add(step)
        self._pending.setdefault(batch, _Pending(worker, content))

    def to_ask(self, workers: Collection[str]) -> list[tuple[Batch, str]]:
        """Choose who prepares again what nobody does: at first, or since its worker was lost.

        That is another worker, on another host if there is one. A job's only worker prepares its
        batches again itself.
        """
        asked = []
        for batch, pending in self._pending.items():
            if workers and pending.second not in workers:
                others = [name for name in workers if name != pending.first] or list(workers)
                host = host_of(pending.first)
                pending.second = min(
                    others, key=lambda name: (host_of(name) == host, self._asked[name])
                )
                self._asked[pending.second] += 1
                asked.append((batch, pending.second))
        return asked

    def pop_first(self, batch: Batch) -> tuple[str, BatchContent] | None:
        """Return who prepared a batch first, and what it was; None if that is not known."""
        if (pending := self._pending.pop(batch, None)) is None:
            return None
        comparisons = self._comparisons[batch[0]]
        comparisons.to_compare.discard(batch[1])
        comparisons.compared.add(batch[1])
        return pending.first, pending.content

    def poll(self) -> list[str]:
        """Return the epoch reads whose last step waits for comparisons that were lost."""
        waiting = {run for run, _ in self._pending}
        lost = []
        for run, each in self._comparisons.items():
            is_stuck = each.have_arrived and not each.are_done and run not in waiting
            each.stuck = each.stuck + 1 if is_stuck else 0
            if each.stuck == _LOST_AFTER:
                lost.append(run)
        return lost

    def counts(self, run: str) -> tuple[int, int] | None:
        """Return how many batches were compared, and of how many; None before they arrived."""
        if (each := self._comparisons.get(run)) is None or not each.have_arrived:
            return None
        return len(each.compared), len(each.compared | each.to_compare)

    def is_done(self, run: str) -> bool:
        """Return whether the last batch of an epoch read may be leased."""
        return run not in self._comparisons or self._comparisons[run].are_done

    def close(self, run: str) -> None:
        """Forget the batches of an epoch read."""
        self._comparisons.pop(run, None)
        for batch in [batch for batch in self._pending if batch[0] == run]:
            del self._pending[batch]
