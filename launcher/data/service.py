"""Batches of the data service, as they come from this host's receiver."""

from __future__ import annotations

import collections
import contextlib
import os
import secrets
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

from launcher.data.batches import wire
from launcher.data.control import messages as m
from launcher.data.memory.borrower import Borrower
from launcher.data.memory.pinning import Pinning
from launcher.data.memory.slabs import SlabViews
from launcher.data.order.laps import End, Parts, Portion, Step, read_parts, unpack
from launcher.data.order.plan import Plan
from launcher.data.order.samples import Description
from launcher.data.order.shards import LanePlan, ShardPlan
from launcher.errors import DataError, DataServiceUnavailable, SampleError
from launcher.runtime.events import emit

#: Seconds for the receiver of this host to open its socket; it starts together with the ranks.
_RECEIVER_PATIENCE = 60.0
#: Seconds without any news from the receiver after which the log says what is awaited.
_SAY_EVERY = 30.0
#: What was taken is said at once, but not again within so many seconds, so many batches, and so
#: many seconds of waiting: each word costs as much CPU time as receiving half a megabyte.
_SAY_TAKEN_EVERY = 0.02
_MOST_UNSAID = 8
_SAY_WHEN_STARVED = 0.004
_GONE = "the receiver of this host is gone"


@dataclass(eq=False)
class _Run:
    """A run that this process has opened, and what came for it that nobody has asked for yet."""

    name: str
    plan: Plan | LanePlan
    batches: collections.deque[m.Batch] = field(default_factory=collections.deque)
    failed: m.RunFailed | None = None


class ServiceSource:
    """Reads from this host's receiver; one connection, one run that is read and one after it.

    No thread runs in the training process: a batch waits in the receiver's shared memory, and its
    message in the socket, until the training loop asks for it.
    """

    def __init__(self, receiver: str, pinning: Pinning | None = None) -> None:
        self._pinning = pinning
        self._process = os.getpid()
        self._unsaid: dict[str, list[int]] = {}  # steps that were taken, by run
        self._next_saying = 0.0
        self._released: collections.deque[int] = collections.deque()
        # The method holds on to this object, and so to the connection, while arrays live: the
        # receiver uses a slab again when it is told to, or when the connection has ended.
        self._views = SlabViews(self._note_release, pinning)
        self._borrower = _connect(receiver, self._views)
        self._runs: dict[str, _Run] = {}
        self._current: _Run | None = None
        self._prepared: _Run | None = None

    def describe(self, dataset: str) -> Description:
        self._say(m.Describe(dataset=dataset))
        while True:
            answer = self._hear(f"what {dataset} is")
            if isinstance(answer, m.Length) and answer.dataset == dataset:
                break
            self._sort(answer)
        if answer.error:
            raise (DataServiceUnavailable if answer.unavailable else DataError)(answer.error)
        return Description(length=answer.length, iterable=answer.iterable)

    def batches(self, plan: Plan | ShardPlan) -> Generator[tuple[Step, Parts], None, None]:
        if isinstance(plan, ShardPlan):
            yield from read_parts(plan, lambda lane: _ServiceLane(self, lane, plan.rank))
            return
        run = self._current = self._prepared_for(plan) or self._open(plan, plan.rank)
        try:
            for _ in range(plan.steps):
                batch = self._next_batch(run)
                self._take(run, batch.step)
                yield batch.step, self._parts(batch)
        finally:
            self._close(run)

    def prepare(self, plan: Plan) -> None:
        self.close()  # what was prepared before
        self._prepared = self._open(plan, plan.rank, after=self._current)

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        of, process = f"{os.environ.get('RANK', 0)}/{stream}", str(os.getpid())
        with contextlib.suppress(DataServiceUnavailable):  # what went wrong is said elsewhere
            self._say(m.Report(kind="rank", of=of, process=process, figures=dict(figures)))

    def close(self) -> None:
        if self._prepared is not None:
            self._close(self._prepared)
            self._prepared = None

    # ---------------------------------------------------------------------------------------

    def _open(self, plan: Plan | LanePlan, rank: int, after: _Run | None = None) -> _Run:
        rank = int(os.environ.get("RANK", rank))
        run = _Run(f"{rank}-{plan.epoch}-{secrets.token_hex(6)}", plan)
        self._runs[run.name] = run
        self._say(
            m.OpenRun(
                run=run.name,
                rank=rank,
                plan=m.encode_plan(plan),
                after=after.name if after else None,
                in_order=plan.spec.in_order,
            )
        )
        return run

    def _prepared_for(self, plan: Plan) -> _Run | None:
        """The run that was opened early, if it is of this plan."""
        run, self._prepared = self._prepared, None
        if run is not None and run.plan != plan:
            self._close(run)
            return None
        return run

    def _close(self, run: _Run) -> None:
        if self._runs.pop(run.name, None) is None or os.getpid() != self._process:
            return  # a fork has no say on its parent's runs
        for batch in run.batches:
            self._note_release(batch.slab)
        self._give_back()
        with contextlib.suppress(DataServiceUnavailable):  # what went wrong was said before
            self._say(m.CloseRun(run=run.name))

    def _next_batch(self, run: _Run) -> m.Batch:
        self._give_back()
        while not run.batches:
            if run.failed is not None:
                raise _as_error(run.failed)
            message = self._hear(f"a batch of {run.plan.spec.name}")
            if isinstance(message, m.Batch) and message.run == run.name:
                return message
            self._sort(message)
        return run.batches.popleft()

    def _parts(self, batch: m.Batch) -> Parts:
        payload = self._views.payload(batch.slab, batch.size)
        return wire.unpack(payload, batch.content)

    def _sort(self, message: m.Message) -> None:
        """Keep what belongs to a run; a batch of one that was closed gives its memory back."""
        run = self._runs.get(getattr(message, "run", ""))
        if isinstance(message, m.Batch):
            if run is None:
                self._note_release(message.slab)
            else:
                run.batches.append(message)
        elif isinstance(message, m.RunFailed) and run is not None:
            run.failed = message

    def _note_release(self, slab: int) -> None:
        self._released.append(slab)  # called by destructors: no lock, no I/O

    def _give_back(self) -> None:
        """Let the receiver use the slabs again that nobody looks at any more."""
        slabs = [self._released.popleft() for _ in range(len(self._released))]
        if self._pinning is not None:
            slabs = self._pinning.copied(slabs)
        for slab in slabs:
            self._views.give_back(slab)

    def _take(self, run: _Run, step: int) -> None:
        """Note that the script has a batch, and say so soon."""
        unsaid = self._unsaid.setdefault(run.name, [])
        unsaid.append(step)
        if len(unsaid) >= _MOST_UNSAID or time.monotonic() >= self._next_saying:
            self._say()

    @property
    def _patience(self) -> float:
        return _SAY_WHEN_STARVED if self._unsaid else _SAY_EVERY

    def _say(self, *messages: m.Message) -> None:
        """Say what was taken, and more."""
        taken = [m.Taken(run=run, steps=steps) for run, steps in self._unsaid.items()]
        self._unsaid = {}
        self._next_saying = time.monotonic() + _SAY_TAKEN_EVERY
        try:
            self._borrower.say(*taken, *messages)
        except OSError as error:
            raise DataServiceUnavailable(_GONE) from error

    def _hear(self, awaited: str) -> m.Message:
        """The next message; says in the log what is awaited, as long as nothing comes."""
        since = time.monotonic()
        try:
            while (message := self._borrower.hear(self._patience)) is None:
                if self._unsaid:
                    self._say()
                else:
                    emit("data_awaited", what=awaited, seconds=round(time.monotonic() - since))
        except OSError as error:
            raise DataServiceUnavailable(_GONE) from error
        return message


class _ServiceLane:
    """A lane that is a run of its own, prepared by one worker at a time."""

    def __init__(self, source: ServiceSource, plan: LanePlan, rank: int) -> None:
        self._source = source
        self._run = source._open(plan, rank)

    def __iter__(self) -> Iterator[Portion | End]:
        return self

    def __next__(self) -> Portion | End:
        batch = self._source._next_batch(self._run)
        item = unpack(*self._source._parts(batch))
        if isinstance(item, Portion):
            self._source._take(self._run, batch.step)
        return item

    def close(self) -> None:
        self._source._close(self._run)


def _connect(receiver: str, views: SlabViews) -> Borrower:
    deadline = time.monotonic() + _RECEIVER_PATIENCE
    while True:
        try:
            return Borrower(receiver, views)
        except OSError as error:
            if time.monotonic() > deadline:
                raise DataServiceUnavailable(
                    f"the receiver of this host did not come up in {_RECEIVER_PATIENCE:.0f} s"
                ) from error
        time.sleep(0.05)


def _as_error(failed: m.RunFailed) -> DataError:
    if failed.kind == "sample":
        return SampleError(
            failed.message, index=failed.index, remote_traceback=failed.remote_traceback
        )
    if failed.kind == "unavailable":
        return DataServiceUnavailable(failed.message)
    return DataError(failed.message)
