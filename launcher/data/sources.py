"""Where a loader gets its batches: from this process, or from the data service."""

from __future__ import annotations

import collections
import contextlib
import os
import secrets
import socket
import struct
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import finalize

from launcher.contract import (
    CODE_CHANNEL,
    DOCUMENT_FILE,
    JobDocument,
    Role,
)
from launcher.data import alone, samples, structure, wire
from launcher.data import messages as m
from launcher.data.lanes import LocalLane
from launcher.data.laps import End, OpenLane, Portion, read_epoch, unpack
from launcher.data.pinning import Pinning
from launcher.data.plan import Plan
from launcher.data.samples import Description
from launcher.data.shards import LanePlan, ShardPlan
from launcher.data.slabs import SlabViews
from launcher.errors import DataError, DataServiceUnavailable, SampleError
from launcher.runtime import lines
from launcher.runtime.environment import RECEIVER_VARIABLE, paths_here
from launcher.runtime.events import emit

#: A batch as a source gives it: its tree and its arrays.
Parts = tuple[Any, list[structure.Array]]
#: Which step a batch is; of an iterable dataset, the portion that it was.
Step = int | Portion

#: Seconds for the receiver of this host to open its socket; it starts together with the ranks.
_RECEIVER_PATIENCE = 60.0
#: Seconds without any news from the receiver after which the log says what is awaited.
_SAY_EVERY = 30
_TIME = struct.Struct("@ll")
_MESSAGE_BYTES = 65536
#: Descriptors that may travel with one read of the socket.
_MOST_DESCRIPTORS = 250


class Source(Protocol):
    """Gives batches by plan."""

    def describe(self, dataset: str) -> Description:
        """What a dataset says of itself."""

    def batches(self, plan: Plan | ShardPlan) -> Generator[tuple[Step, Parts], None, None]:
        """The steps of a plan and their batches; in order, if the plan's stream wants that."""

    def prepare(self, plan: Plan) -> None:
        """Begin to work on a plan that may be asked for next, after the one that is being read."""

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        """Pass on what this rank has counted of a stream."""

    def close(self) -> None:
        """Nothing more is asked for; arrays that were given stay as they are."""


def open_source(pinning: Pinning | None = None) -> Source:
    """The data service where the job declares one, else this process; never one for the other."""
    if name := os.environ.get(RECEIVER_VARIABLE):
        return ServiceSource(name, pinning)
    if _service_is_declared():
        raise DataServiceUnavailable(
            f"this job declares a data group, but {RECEIVER_VARIABLE} is not set in this process: "
            "start it with the environment of the training script"
        )
    return LocalSource(pinning)


def _service_is_declared() -> bool:
    document = paths_here().channels / CODE_CHANNEL / DOCUMENT_FILE
    if not document.exists():
        return False  # a script run by hand, outside any job
    declared = JobDocument.from_json(document.read_text())
    has_local_workers = declared.data is not None and declared.data.local_workers > 0
    return has_local_workers or Role.DATA in declared.roles.values()


class LocalSource:
    """Loads in this process, batch by batch."""

    def __init__(self, pinning: Pinning | None = None) -> None:
        self._pinning = pinning
        self._datasets = samples.Datasets()

    def describe(self, dataset: str) -> Description:
        return samples.describe(self._datasets[dataset])

    def batches(self, plan: Plan | ShardPlan) -> Generator[tuple[Step, Parts], None, None]:
        if isinstance(plan, ShardPlan):
            yield from _in_turn(plan, LocalLane)
            return
        dataset = self._datasets[plan.spec.dataset]
        for step in range(plan.steps):
            tree, arrays = structure.take_apart(samples.load_batch(dataset, plan, step))
            yield step, (tree, self._pinning.copies(arrays) if self._pinning else arrays)

    def prepare(self, plan: Plan) -> None:
        """Nothing: this process is busy with the plan that is being read."""

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        alone.this_process().hear(stream, figures)

    def close(self) -> None:
        """Nothing to end."""


def _in_turn(plan: ShardPlan, open_lane: OpenLane) -> Generator[tuple[Portion, Parts], None, None]:
    with contextlib.closing(read_epoch(plan, open_lane)) as portions:
        for portion in portions:
            yield portion, portion.take()


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
        self._socket = _connect(receiver)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIME.pack(_SAY_EVERY, 0))
        self._process = os.getpid()
        finalize(self, self._socket.close)
        self._buffer = bytearray()
        self._descriptors: collections.deque[int] = collections.deque()
        self._released: collections.deque[int] = collections.deque()
        # The method holds on to this object, and so to the connection, while arrays live: the
        # receiver uses a slab again when it is told to, or when the connection has ended.
        self._views = SlabViews(self._note_release, pinning)
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
            yield from _in_turn(plan, lambda lane: _ServiceLane(self, lane, plan.rank))
            return
        run = self._current = self._prepared_for(plan) or self._open(plan, plan.rank)
        try:
            for _ in range(plan.steps):
                batch = self._next_batch(run)
                self._say(m.Taken(run=run.name, step=batch.step))
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
        with contextlib.suppress(DataServiceUnavailable):  # what went wrong was said before
            self._say(m.CloseRun(run=run.name))

    def _next_batch(self, run: _Run) -> m.Batch:
        while not run.batches:
            if run.failed is not None:
                raise _as_error(run.failed)
            self._sort(self._hear(f"a batch of {run.plan.spec.name}"))
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

    def _say(self, message: m.Message) -> None:
        slabs = [self._released.popleft() for _ in range(len(self._released))]
        if self._pinning is not None:
            slabs = self._pinning.copied(slabs)
        out = lines.encode(m.Release(slabs=slabs).encode()) if slabs else b""
        try:
            self._socket.sendall(out + lines.encode(message.encode()))
        except OSError as error:
            raise DataServiceUnavailable("the receiver of this host is gone") from error

    def _hear(self, awaited: str) -> m.Message:
        """The next message; says in the log what is awaited, as long as nothing comes."""
        since = time.monotonic()
        while (end := self._buffer.find(b"\n")) < 0:
            if not self._read_more():
                waited = round(time.monotonic() - since)
                emit("data_awaited", what=awaited, seconds=waited)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        message = m.decode(lines.decode(line))
        if isinstance(message, m.Batch) and message.new:
            self._views.add(message.slab, self._descriptors.popleft())
        elif isinstance(message, m.Forget):
            self._views.forget(message.slab)
        return message

    def _read_more(self) -> bool:
        """Read what has come; False when nothing has come for a while."""
        try:
            data, descriptors, flags, _ = socket.recv_fds(
                self._socket, _MESSAGE_BYTES, _MOST_DESCRIPTORS
            )
            if flags & socket.MSG_CTRUNC:
                raise DataServiceUnavailable(
                    "this process has too many open files for another batch: let go of batches, or "
                    "raise the limit (ulimit -n)"
                )
        except BlockingIOError:
            return False
        except OSError as error:
            raise DataServiceUnavailable("the receiver of this host is gone") from error
        if not data:
            raise DataServiceUnavailable("the receiver of this host is gone")
        self._buffer += data
        self._descriptors.extend(descriptors)
        return True


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
            self._source._say(m.Taken(run=self._run.name, step=batch.step))
        return item

    def close(self) -> None:
        self._source._close(self._run)


def _connect(receiver: str) -> socket.socket:
    deadline = time.monotonic() + _RECEIVER_PATIENCE
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(f"\0{receiver}")
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline:
                raise DataServiceUnavailable(
                    f"the receiver of this host did not come up in {_RECEIVER_PATIENCE:.0f} s"
                ) from error
            time.sleep(0.05)
        else:
            return connection


def _as_error(failed: m.RunFailed) -> DataError:
    if failed.kind == "sample":
        return SampleError(
            failed.message, index=failed.index, remote_traceback=failed.remote_traceback
        )
    if failed.kind == "unavailable":
        return DataServiceUnavailable(failed.message)
    return DataError(failed.message)
