"""The control protocol of the data service: typed messages, one JSON line each.

worker     -> dispatcher   HelloWorker, Length, Sent, BatchFailed, Beat, Report
receiver   -> dispatcher   HelloReceiver, Describe, OpenRun, Arrived, Damaged, Taken, CloseRun,
                           Report
dispatcher -> worker       Describe, DefineRun, Lease, CloseRun, Close
dispatcher -> receiver     Length, RunFailed
rank      <-> receiver     Describe, OpenRun, Taken, Release, CloseRun, Report
                           /  Length, Batch, Forget, RunFailed

A *run* is one rank's pass over one epoch of one dataset; its id is made by the rank.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from launcher.data.plan import Plan
from launcher.data.streams import StreamSpec
from launcher.errors import WireError


@dataclass(frozen=True, kw_only=True)
class Message:
    """Anything that is said on a control connection."""

    def encode(self) -> dict[str, Any]:
        return {"type": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class HelloWorker(Message):
    worker: str
    host: str
    pid: int


@dataclass(frozen=True, kw_only=True)
class HelloReceiver(Message):
    """address: where workers send batches for this train host."""

    host: str
    address: tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Describe(Message):
    """Asks for the length of a dataset."""

    dataset: str


@dataclass(frozen=True, kw_only=True)
class Length(Message):
    """The answer to Describe.

    error: the user's traceback when the dataset does not build. unavailable: nobody can answer.
    """

    dataset: str
    length: int
    error: str = ""
    unavailable: bool = False


@dataclass(frozen=True, kw_only=True)
class OpenRun(Message):
    """A rank begins to read.

    after: the run that this one follows, when it is opened before that one ends.
    in_order: whether batches are handed over in the order of their steps.
    """

    run: str
    rank: int
    plan: dict[str, Any]
    after: str | None = None
    in_order: bool = True


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
class Sent(Message):
    """A worker has prepared and sent a batch. seconds: the time that preparing it took."""

    run: str
    step: int
    seconds: float


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
    """A sign of life."""


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
class Arrived(Message):
    """A receiver holds the first copy of a batch. size: bytes of shared memory that it takes."""

    run: str
    step: int
    worker: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Damaged(Message):
    """A batch did not arrive as it was sent, and its connection was closed with all after it."""

    run: str
    step: int
    worker: str


@dataclass(frozen=True, kw_only=True)
class Taken(Message):
    """A rank has taken a batch out of the loader."""

    run: str
    step: int


@dataclass(frozen=True, kw_only=True)
class Release(Message):
    """A rank no longer looks at these slabs."""

    slabs: list[int]


@dataclass(frozen=True, kw_only=True)
class Batch(Message):
    """A batch for a rank. slab: which shared memory; size: its bytes; new: its descriptor follows.

    content: the bytes at its end that say what the others are.
    The descriptor of a slab that the rank has not seen yet travels with the message.
    """

    run: str
    step: int
    slab: int
    size: int
    new: bool
    content: int


@dataclass(frozen=True, kw_only=True)
class Forget(Message):
    """A slab that the rank has released is used no more."""

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
class Close(Message):
    """The service ends; workers leave with exit code 0."""


_TYPES: dict[str, type[Message]] = {kind.__name__: kind for kind in Message.__subclasses__()}
_Kind = TypeVar("_Kind", bound=Message)


def decode(raw: dict[str, Any]) -> Message:
    """A message from its JSON object; raises WireError for what is not one."""
    kind = _TYPES.get(str(raw.get("type")))
    names = {field.name for field in fields(kind)} if kind else set()
    if kind is None or not set(raw) - {"type"} <= names:
        raise WireError(f"not a message of the data service: {str(raw)[:120]}")
    try:
        return kind(**{name: value for name, value in raw.items() if name != "type"})
    except TypeError as error:
        raise WireError(f"a damaged message {raw.get('type')}: {error}") from error


def encode_plan(plan: Plan) -> dict[str, Any]:
    return asdict(plan)


def decode_plan(raw: dict[str, Any]) -> Plan:
    """A plan from a message; raises WireError when it is damaged."""
    try:
        ranges = {name: tuple((a, b) for a, b in raw[name]) for name in ("holes", "done")}
        return Plan(**{**raw, **ranges, "spec": StreamSpec(**raw["spec"])})
    except (TypeError, KeyError, ValueError) as error:
        raise WireError(f"a damaged plan: {error}") from error
