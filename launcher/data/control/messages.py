"""The control protocol of the data service: typed messages, one JSON line each but for Batch.

worker     -> dispatcher   HelloWorker, Length, Beat, BatchFailed, Unreachable, Leaving,
                           Report
receiver   -> dispatcher   HelloReceiver, Describe, OpenRun, Progress, Damaged, CloseRun,
                           Confirmed, Farewell, Report
dispatcher -> worker       Describe, DefineRun, Lease, Revoke, CloseRun, Close, Alive
dispatcher -> receiver     Length, RunFailed, Confirm, Alive, Close
rank      <-> receiver     Describe, OpenRun, Taken, CloseRun, Report
                           /  Length, Batch, Forget, RunFailed
local worker <-> receiver  NeedSlab, Filled  /  Lent, Forget

A *run* is one rank's pass over one epoch of one dataset; its id is made by the rank.

Each Hello says all that its sender knows, so that a dispatcher that was started again, or that was
out of reach, can go on from there: what was said before and got lost does not matter.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from launcher.data.control.fields import misfit
from launcher.data.order.plan import Plan
from launcher.data.order.shards import LanePlan
from launcher.data.order.streams import StreamSpec
from launcher.errors import WireError
from launcher.runtime import lines


@dataclass(frozen=True, kw_only=True)
class Message:
    """Anything that is said on a control connection."""

    def encode(self) -> dict[str, Any]:
        return {"type": type(self).__name__, **vars(self)}

    def to_line(self) -> bytes:
        """The message as it is sent."""
        return lines.encode(self.encode())


@dataclass(frozen=True, kw_only=True)
class HelloWorker(Message):
    """worker: its name, which begins with its host. holds: the steps it is at work on, by run.

    seconds: that a batch takes it; 0 before the first. runs: those whose definition it has.
    """

    worker: str
    pid: int
    seconds: float = 0.0
    holds: dict[str, list[int]] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class HelloReceiver(Message):
    """address: where workers send batches for this train host.

    runs: those that are open, as OpenRun messages with their progress. prepared, received: batches
    that the ranks of this host have taken, by the host that prepared them and by rank.
    """

    host: str
    address: tuple[str, int]
    runs: list[dict[str, Any]] = field(default_factory=list)
    prepared: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Describe(Message):
    """Asks for the length of a dataset."""

    dataset: str


@dataclass(frozen=True, kw_only=True)
class Length(Message):
    """The answer to Describe.

    length: None when an iterable dataset does not say. error: the user's traceback when the dataset
    does not build. unavailable: nobody can answer.
    """

    dataset: str
    length: int | None
    iterable: bool = False
    error: str = ""
    unavailable: bool = False


@dataclass(frozen=True, kw_only=True)
class OpenRun(Message):
    """A rank begins to read.

    after: the run that this one follows, when it is opened before that one ends.
    in_order: whether batches are handed over in the order of their steps.
    reading: how many times its process has begun to read the stream, with this one; 0 when it is
    opened before the script asks for it.

    The rest is said when a receiver comes back. taken: every step below is taken; early: and these,
    beyond it. arrived: [step, worker] of batches not taken. largest: bytes of the largest so far.
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
    """What a worker must know before it is leased batches of a run."""

    run: str
    plan: dict[str, Any]
    address: tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Lease(Message):
    """Batches for a worker to prepare and send."""

    run: str
    steps: list[int]


@dataclass(frozen=True, kw_only=True)
class Revoke(Message):
    """Batches that a worker was leased, and need not prepare if it has not begun them."""

    run: str
    steps: list[int]


@dataclass(frozen=True, kw_only=True)
class BatchFailed(Message):
    """The dataset raised."""

    run: str
    step: int
    message: str
    index: int | None
    remote_traceback: str


@dataclass(frozen=True, kw_only=True)
class Beat(Message):
    """A worker's sign of life, once a second.

    seconds: that a batch takes it. done: the steps it has done with since the last beat, by run;
    they are sent, or were not wanted any more.
    """

    seconds: float
    done: dict[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class Report(Message):
    """What a process has counted since its start, once a second. kind: worker, rank or receiver.

    of: the worker's or receiver's host, or rank/stream. process: tells it from those before it.
    """

    kind: str
    of: str
    process: str
    figures: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Alive(Message):
    """The dispatcher's sign of life."""


@dataclass(frozen=True, kw_only=True)
class Unreachable(Message):
    """A worker cannot reach the receiver of a run."""

    run: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Leaving(Message):
    """A worker was asked to leave. keeps: the steps that it still finishes, by run."""

    keeps: dict[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class Progress(Message):
    """What has happened at a receiver lately, by run.

    arrived: [step, worker, bytes of shared memory] of first copies. taken: steps that the rank has
    taken out of the loader.
    """

    arrived: dict[str, list[tuple[int, str, int]]]
    taken: dict[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class Damaged(Message):
    """A batch did not arrive as it was sent, and its connection was closed with all after it."""

    run: str
    step: int
    worker: str


@dataclass(frozen=True, kw_only=True)
class Taken(Message):
    """A rank has taken batches out of the loader."""

    run: str
    steps: list[int]


class Batch(NamedTuple):
    """A batch for a rank. slab: which shared memory; size: its bytes; new: its descriptor follows.

    content: the bytes at its end that say what the others are.
    The descriptor of a slab that the rank has not seen yet travels with the message.
    There is one for each batch, on its way to the training loop, so it is a record and no JSON:
    zero, new, bytes of the run's name, step, slab, size, content, the run's name.
    """

    run: str
    step: int
    slab: int
    size: int
    new: bool
    content: int

    def to_line(self) -> bytes:
        """The message as it is sent."""
        run = self.run.encode()
        numbers = (self.step, self.slab, self.size, self.content)
        return _RECORD.pack(_NO_JSON, self.new, len(run), *numbers) + run


@dataclass(frozen=True, kw_only=True)
class NeedSlab(Message):
    """A worker on the receiver's own host has a batch, of `size` bytes."""

    run: str
    step: int
    size: int


@dataclass(frozen=True, kw_only=True)
class Lent(Message):
    """The answer: which slab to fill, or None when the batch is not wanted. new: as in Batch."""

    slab: int | None
    new: bool = False


@dataclass(frozen=True, kw_only=True)
class Filled(Message):
    """The batch is in the slab. content: as in Batch."""

    run: str
    step: int
    worker: str
    slab: int
    size: int
    content: int


@dataclass(frozen=True, kw_only=True)
class Forget(Message):
    """A slab that was released is used no more."""

    slab: int


@dataclass(frozen=True, kw_only=True)
class RunFailed(Message):
    """A run cannot go on. kind: "sample", "unavailable", "refused" or "dataset"."""

    run: str
    kind: str
    message: str
    index: int | None = None
    remote_traceback: str = ""


@dataclass(frozen=True, kw_only=True)
class CloseRun(Message):
    """A rank has finished with a run, at its end or before."""

    run: str


@dataclass(frozen=True, kw_only=True)
class Confirm(Message):
    """Asks whether a run is still read."""

    run: str


@dataclass(frozen=True, kw_only=True)
class Confirmed(Message):
    """It is: its rank lives. A run that is not is closed instead, or that has been said before."""

    run: str


@dataclass(frozen=True, kw_only=True)
class Farewell(Message):
    """A receiver has told everything, and waits for Close as the sign that it was heard."""


@dataclass(frozen=True, kw_only=True)
class Close(Message):
    """The service ends; workers leave with exit code 0."""


_T = TypeVar("_T")

_TYPES: dict[str, type[Message]] = {kind.__name__: kind for kind in Message.__subclasses__()}
_RECORD = struct.Struct("<BBH4xQQQQ")
_NO_JSON = 0
_NAMES = {name: frozenset(f.name for f in fields(kind)) for name, kind in _TYPES.items()}


def decode(raw: dict[str, Any]) -> Message:
    """A message from its JSON object; raises WireError for what is not one."""
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
    """Messages as they are sent, to be written in one go."""
    return b"".join([message.to_line() for message in messages])


def cut(data: bytes) -> tuple[Message | Batch | None, bytes]:
    """The first message of what has come, None when it is not there as a whole; and the rest.

    Raises WireError for what is no message.
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
    # Batch(...) would call a function of its own.
    return tuple.__new__(Batch, (run, step, slab, size, bool(new), content)), data[end:]


def from_line(line: bytes) -> Message:
    """A message from its JSON line; raises WireError for what is not one."""
    return decode(lines.decode(line))


def encode_plan(plan: Plan | LanePlan) -> dict[str, Any]:
    return asdict(plan)


def decode_plan(raw: dict[str, Any]) -> Plan | LanePlan:
    """A plan from a message; raises WireError when it is damaged."""
    try:
        spec = _made(StreamSpec, raw["spec"])
        if "shard" in raw:
            return _made(LanePlan, {**raw, "spec": spec})
        ranges = {name: tuple((a, b) for a, b in raw[name]) for name in ("holes", "done")}
        return _made(Plan, {**raw, **ranges, "spec": spec})
    except (TypeError, KeyError, ValueError) as error:
        raise WireError(f"a damaged plan: {error}") from error


def _made(kind: type[_T], values: Any) -> _T:
    if not isinstance(values, dict):
        raise TypeError(f"{values!r} is no {kind.__name__}")
    if (wrong := misfit(kind, values)) is not None:
        raise TypeError(f"{wrong} is {str(values[wrong])[:80]!r}")
    return kind(**values)
