"""The control protocol of the data service: typed messages, one JSON line each except Batch.

worker     -> dispatcher   RegisterWorker, Length, Heartbeat, BatchFailed, PeerUnreachable, Leaving,
                           Prepared, ShardState, Report
receiver   -> dispatcher   RegisterReceiver, Describe, OpenRun, ProgressUpdate, Damaged, CloseRun,
                           Confirmed, Goodbye, Report
dispatcher -> worker       Describe, DefineRun, Lease, Verify, Revoke, CloseRun, Close, Alive
dispatcher -> receiver     Length, RunFailed, Confirm, Alive, Close
rank      <-> receiver     Describe, OpenRun, Consumed, CloseRun, Report
                           /  Length, Batch, Forget, RunFailed
local worker <-> receiver  NeedSlab, SlabFilled  /  SlabLent, Forget

An *epoch read* is one rank's read of one epoch of one dataset; the rank makes its id.

Each registration carries the complete state of its sender. A dispatcher that was restarted, or was
unreachable, can continue from it, and earlier messages that were lost do not matter.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from launcher.data.control.message_fields import misfit
from launcher.data.order import (
    BatchPlan,
    ShardPrefix,
    ShardReaderPlan,
    StreamSpec,
)
from launcher.errors import WireError
from launcher.runtime import jsonl_socket


@dataclass(frozen=True, kw_only=True)
class Message:
    """Base class of all messages on a control connection."""

    def encode(self) -> dict[str, Any]:
        """Return the message as a JSON object."""
        return {"type": type(self).__name__, **vars(self)}

    def to_line(self) -> bytes:
        """Return the message as bytes to send."""
        return jsonl_socket.encode(self.encode())


@dataclass(frozen=True, kw_only=True)
class RegisterWorker(Message):
    """Registration of a worker.

    worker: its name, which begins with its host. seconds: time it takes per batch; 0 before the
    first. holds: the steps it is working on, by epoch read. runs: the epoch reads whose definition
    it has.
    """

    worker: str
    pid: int
    seconds: float = 0.0
    holds: dict[str, list[int]] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RegisterReceiver(Message):
    """Registration of a receiver.

    address: where workers send batches for this train host. runs: the open epoch reads, as OpenRun
    messages with their progress. prepared, received: batches that this host's ranks have consumed,
    by the host that prepared them and by rank.
    """

    host: str
    address: tuple[str, int]
    runs: list[dict[str, Any]] = field(default_factory=list)
    prepared: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Describe(Message):
    """Request for the length of a dataset."""

    dataset: str


@dataclass(frozen=True, kw_only=True)
class Length(Message):
    """Answer to Describe.

    length: None if an iterable dataset does not define it. error: the user's traceback if the
    dataset cannot be built. unavailable: no worker can answer.
    """

    dataset: str
    length: int | None
    iterable: bool = False
    error: str = ""
    unavailable: bool = False


@dataclass(frozen=True, kw_only=True)
class OpenRun(Message):
    """Notice that a rank starts an epoch read.

    after: the epoch read that this one follows, if it is opened before that one ends. in_order:
    batches are handed over in the order of their steps. reading: how many times the rank's process
    has started to read the stream, including this one; 0 if the read is opened before the script
    asks for it.

    The other fields are sent when a receiver reconnects. taken: every step below it is consumed.
    early: steps beyond it that are consumed too. arrived: [step, worker] of batches not consumed.
    largest: bytes of the largest batch so far.
    """

    run: str
    rank: int
    plan: dict[str, Any]
    after: str | None = None
    in_order: bool = True
    reading: int = 0
    taken: int = 0
    early: list[int] = field(default_factory=list)
    arrived: list[tuple[int, str]] = field(default_factory=list)
    largest: int = 0


@dataclass(frozen=True, kw_only=True)
class DefineRun(Message):
    """Definition of an epoch read, sent to a worker before it is leased batches of that read.

    states: of a shard's dataset, the latest of those that workers have sent. It is sent again with
    those of another worker whose shard goes to this one.
    """

    run: str
    plan: dict[str, Any]
    address: tuple[str, int]
    states: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ShardState(Message):
    """State of a shard's dataset, for the worker that goes on if this one is lost.

    state: a `saved_states.SavedState` as a JSON object.
    """

    run: str
    state: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Lease(Message):
    """Batches for a worker to prepare and send."""

    run: str
    steps: list[int]


@dataclass(frozen=True, kw_only=True)
class Verify(Message):
    """A batch that a worker prepares and does not send: it only reports what it holds."""

    run: str
    step: int


@dataclass(frozen=True, kw_only=True)
class Prepared(Message):
    """Report of what a batch holds, by fingerprints. again: in answer to Verify.

    structure, arrays, rows: see `verification.BatchContent`.
    """

    run: str
    step: int
    again: bool
    structure: str
    arrays: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Revoke(Message):
    """Leased batches that a worker need not prepare unless it has already started them."""

    run: str
    steps: list[int]


@dataclass(frozen=True, kw_only=True)
class BatchFailed(Message):
    """Report that the dataset raised an error."""

    run: str
    step: int
    message: str
    index: int | None
    remote_traceback: str
    type_names: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Heartbeat(Message):
    """A worker's heartbeat, sent once a second.

    seconds: time it takes per batch. done: the steps finished since the last heartbeat, by epoch
    read; they were sent, or were no longer wanted.
    """

    seconds: float
    done: dict[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class Report(Message):
    """A process's metrics since its start, sent once a second.

    kind: worker, rank or receiver. of: the host of the worker or receiver, or rank/stream. process:
    distinguishes it from its predecessors.
    """

    kind: str
    of: str
    process: str
    figures: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Alive(Message):
    """The dispatcher's heartbeat."""


@dataclass(frozen=True, kw_only=True)
class PeerUnreachable(Message):
    """Report that a worker cannot reach the receiver of an epoch read."""

    run: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Leaving(Message):
    """Notice that a worker was asked to leave.

    keeps: the steps that it still finishes, by epoch read.
    """

    keeps: dict[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class ProgressUpdate(Message):
    """Recent events at a receiver, by epoch read.

    arrived: [step, worker, bytes of shared memory] of first copies. taken: steps that the rank has
    consumed from the loader.
    """

    arrived: dict[str, list[tuple[int, str, int]]]
    taken: dict[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class Damaged(Message):
    """Report of a batch that arrived damaged.

    Its connection was closed, so everything sent after it is lost too.
    """

    run: str
    step: int
    worker: str


@dataclass(frozen=True, kw_only=True)
class Consumed(Message):
    """Notice that a rank has consumed batches from the loader."""

    run: str
    steps: list[int]


class Batch(NamedTuple):
    """A batch for a rank.

    slab: number of the shared memory slab. size: bytes of the batch in it. new: a descriptor
    follows. content: number of bytes at the end of the batch that describe the others.

    The descriptor of a slab that the rank has not seen yet travels with the message. This message
    precedes every batch on its way to the training loop, so it is a binary record rather than JSON:
    zero, new, bytes of the epoch read's id, step, slab, size, content, the epoch read's id.
    """

    run: str
    step: int
    slab: int
    size: int
    new: bool
    content: int

    def to_line(self) -> bytes:
        """Return the message as bytes to send."""
        run = self.run.encode()
        numbers = (self.step, self.slab, self.size, self.content)
        return _RECORD.pack(_NO_JSON, self.new, len(run), *numbers) + run


@dataclass(frozen=True, kw_only=True)
class NeedSlab(Message):
    """Request of a worker on the receiver's own host for a slab of `size` bytes for a batch."""

    run: str
    step: int
    size: int


@dataclass(frozen=True, kw_only=True)
class SlabLent(Message):
    """Answer to NeedSlab.

    slab: which slab to fill, or None if the batch is not wanted. new: as in Batch.
    """

    slab: int | None
    new: bool = False


@dataclass(frozen=True, kw_only=True)
class SlabFilled(Message):
    """Notice that the batch is in the slab.

    content: as in Batch.
    """

    run: str
    step: int
    worker: str
    slab: int
    size: int
    content: int


@dataclass(frozen=True, kw_only=True)
class Forget(Message):
    """Notice that a released slab will not be used again."""

    slab: int


@dataclass(frozen=True, kw_only=True)
class RunFailed(Message):
    """Notice that an epoch read cannot continue.

    kind: one of "sample", "unavailable", "refused" and "dataset". type_names: see DataError.
    """

    run: str
    kind: str
    message: str
    index: int | None = None
    remote_traceback: str = ""
    type_names: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class CloseRun(Message):
    """Notice that a rank has finished an epoch read, at its end or earlier."""

    run: str


@dataclass(frozen=True, kw_only=True)
class Confirm(Message):
    """Question to a receiver: is the epoch read still in use?"""

    run: str


@dataclass(frozen=True, kw_only=True)
class Confirmed(Message):
    """Answer to Confirm that the rank of the epoch read is alive.

    A read that is not in use is closed instead, or was closed before.
    """

    run: str


@dataclass(frozen=True, kw_only=True)
class Goodbye(Message):
    """A receiver's last message, after it has reported everything.

    It waits for Close as the acknowledgement.
    """


@dataclass(frozen=True, kw_only=True)
class Close(Message):
    """Notice that the service ends; workers then exit with code 0."""


_T = TypeVar("_T")

_TYPES: dict[str, type[Message]] = {kind.__name__: kind for kind in Message.__subclasses__()}
_RECORD = struct.Struct("<BBH4xQQQQ")
_NO_JSON = 0
_NAMES = {name: frozenset(f.name for f in fields(kind)) for name, kind in _TYPES.items()}


def decode(raw: dict[str, Any]) -> Message:
    """Return the message in a JSON object; raises WireError if it is not a valid message."""
    name = str(raw.pop("type", None))
    kind = _TYPES.get(name)
    if kind is None or not raw.keys() <= _NAMES[name]:
        raise WireError(f"not a message of the data service: {str({'type': name, **raw})[:120]}")
    if (wrong := misfit(kind, raw)) is not None:
        raise WireError(f"a damaged message {name}: {wrong} is {str(raw[wrong])[:80]!r}")
    try:
        return kind(**raw)
    except TypeError as error:
        raise WireError(f"a damaged message {name}: {error}") from error


def to_lines(*messages: Message) -> bytes:
    """Return several messages as bytes to send in one write."""
    return b"".join([message.to_line() for message in messages])


def cut(data: bytes) -> tuple[Message | Batch | None, bytes]:
    """Split the first message off the received bytes; return it and the rest.

    The message is None while it is incomplete. Raises WireError for data that is not a message.
    """
    if data[0] != _NO_JSON:
        line, found, rest = data.partition(b"\n")
        return (from_line(line), rest) if found else (None, data)
    if len(data) < _RECORD.size:
        return None, data
    _, new, length, step, slab, size, content = _RECORD.unpack_from(data)
    end = _RECORD.size + length
    if len(data) < end:
        return None, data
    try:
        run = data[_RECORD.size : end].decode()
    except UnicodeDecodeError as error:
        raise WireError(f"a damaged message Batch: {data[:end]!r}") from error
    # Faster than Batch(...), which adds a function call.
    return tuple.__new__(Batch, (run, step, slab, size, bool(new), content)), data[end:]


def from_line(line: bytes) -> Message:
    """Return the message in a JSON line; raises WireError if it is not a valid message."""
    return decode(jsonl_socket.decode(line))


def encode_plan(plan: BatchPlan | ShardReaderPlan) -> dict[str, Any]:
    """Return a plan as a JSON object."""
    return asdict(plan)


def decode_plan(raw: dict[str, Any]) -> BatchPlan | ShardReaderPlan:
    """Return the plan in a JSON object; raises WireError if it is damaged."""
    try:
        spec = _made(StreamSpec, raw["spec"])
        if "shard" in raw:
            prefix = ShardPrefix.from_json(raw["prefix"])
            return _made(ShardReaderPlan, {**raw, "spec": spec, "prefix": prefix})
        ranges = {name: tuple((a, b) for a, b in raw[name]) for name in ("holes", "done")}
        return _made(BatchPlan, {**raw, **ranges, "spec": spec})
    except (TypeError, KeyError, ValueError) as error:
        raise WireError(f"a damaged plan: {error}") from error


def _made(kind: type[_T], values: object) -> _T:
    if not isinstance(values, dict):
        raise TypeError(f"{values!r} is not {kind.__name__}")
    if (wrong := misfit(kind, values)) is not None:
        raise TypeError(f"{wrong} is {str(values[wrong])[:80]!r}")
    return kind(**values)
