"""Where a loader gets its batches: from this process, or from the data service."""

from __future__ import annotations

import collections
import contextlib
import os
import secrets
import socket
import time
from collections.abc import Generator, Mapping
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
from launcher.data.plan import Plan
from launcher.data.slabs import SlabViews
from launcher.errors import DataError, DataServiceUnavailable, SampleError, WireError
from launcher.runtime import lines
from launcher.runtime.environment import paths_here
from launcher.runtime.train import RECEIVER_VARIABLE

#: A batch as a source gives it: its tree and its arrays.
Parts = tuple[Any, list[structure.Array]]

#: Seconds for the receiver of this host to open its socket; it starts together with the ranks.
_RECEIVER_PATIENCE = 60.0
_MESSAGE_BYTES = 65536
#: Descriptors that may travel with one read of the socket.
_MOST_DESCRIPTORS = 250


class Source(Protocol):
    """Gives batches by plan, in order."""

    def length(self, dataset: str) -> int:
        """Samples in a dataset."""

    def batches(self, plan: Plan) -> Generator[Parts, None, None]:
        """The batches of a plan, in order."""

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        """Pass on what this rank has counted of a stream."""


def open_source() -> Source:
    """The data service where the job declares one, else this process; never one for the other."""
    if name := os.environ.get(RECEIVER_VARIABLE):
        return ServiceSource(name)
    if _service_is_declared():
        raise DataServiceUnavailable(
            f"this job declares a data group, but {RECEIVER_VARIABLE} is not set in this process: "
            "start it with the environment of the training script"
        )
    return LocalSource()


def _service_is_declared() -> bool:
    document = paths_here().channels / CODE_CHANNEL / DOCUMENT_FILE
    if not document.exists():
        return False  # a script run by hand, outside any job
    return Role.DATA in JobDocument.from_json(document.read_text()).roles.values()


class LocalSource:
    """Loads in this process, batch by batch."""

    def __init__(self) -> None:
        self._datasets = samples.Datasets()

    def length(self, dataset: str) -> int:
        return len(self._datasets[dataset])

    def batches(self, plan: Plan) -> Generator[Parts, None, None]:
        dataset = self._datasets[plan.spec.dataset]
        for step in range(plan.steps):
            yield structure.take_apart(samples.load_batch(dataset, plan, step))

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        alone.this_process().hear(stream, figures)


class ServiceSource:
    """Reads from this host's receiver; one connection and at most one run at a time.

    No thread runs in the training process: a batch waits in the receiver's shared memory, and its
    message in the socket, until the training loop asks for it.
    """

    def __init__(self, receiver: str) -> None:
        self._socket = _connect(receiver)
        finalize(self, self._socket.close)
        self._buffer = bytearray()
        self._descriptors: collections.deque[int] = collections.deque()
        self._released: collections.deque[int] = collections.deque()
        # The method holds on to this object, and so to the connection, while arrays live: the
        # receiver uses a slab again when it is told to, or when the connection has ended.
        self._views = SlabViews(self._note_release)

    def length(self, dataset: str) -> int:
        self._say(m.Describe(dataset=dataset))
        while True:
            answer = self._hear()
            if isinstance(answer, m.Length) and answer.dataset == dataset:
                break
            self._discard(answer)
        if answer.error:
            raise (DataServiceUnavailable if answer.unavailable else DataError)(answer.error)
        return answer.length

    def batches(self, plan: Plan) -> Generator[Parts, None, None]:
        rank = int(os.environ.get("RANK", plan.rank))
        run = f"{rank}-{plan.epoch}-{secrets.token_hex(6)}"
        self._say(m.OpenRun(run=run, rank=rank, plan=m.encode_plan(plan)))
        try:
            for step in range(plan.steps):
                batch = self._receive(run, step)
                self._say(m.Taken(run=run, step=step))
                yield batch
        finally:
            with contextlib.suppress(DataServiceUnavailable):  # what went wrong was said before
                self._say(m.CloseRun(run=run))

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        of, process = f"{os.environ.get('RANK', 0)}/{stream}", str(os.getpid())
        with contextlib.suppress(DataServiceUnavailable):  # what went wrong is said elsewhere
            self._say(m.Report(kind="rank", of=of, process=process, figures=dict(figures)))

    # ---------------------------------------------------------------------------------------

    def _receive(self, run: str, step: int) -> Parts:
        while True:
            message = self._hear()
            if isinstance(message, m.RunFailed) and message.run == run:
                raise _as_error(message)
            if isinstance(message, m.Batch) and message.run == run:
                break
            self._discard(message)
        if message.step != step:
            raise WireError(f"batch {message.step} came instead of {step}")
        payload = self._views.payload(message.slab, message.size)
        return message.tree, wire.view_arrays(message.arrays, payload)

    def _discard(self, message: m.Message) -> None:
        """A batch of a run that was left early gives its memory back."""
        if isinstance(message, m.Batch):
            self._note_release(message.slab)

    def _note_release(self, slab: int) -> None:
        self._released.append(slab)  # called by destructors: no lock, no I/O

    def _say(self, message: m.Message) -> None:
        out = b""
        if self._released:
            slabs = [self._released.popleft() for _ in range(len(self._released))]
            out = lines.encode(m.Release(slabs=slabs).encode())
        try:
            self._socket.sendall(out + lines.encode(message.encode()))
        except OSError as error:
            raise DataServiceUnavailable("the receiver of this host is gone") from error

    def _hear(self) -> m.Message:
        while (end := self._buffer.find(b"\n")) < 0:
            self._read()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        message = m.decode(lines.decode(line))
        if isinstance(message, m.Batch) and message.new:
            self._views.add(message.slab, self._descriptors.popleft())
        elif isinstance(message, m.Forget):
            self._views.forget(message.slab)
        return message

    def _read(self) -> None:
        try:
            data, descriptors, flags, _ = socket.recv_fds(
                self._socket, _MESSAGE_BYTES, _MOST_DESCRIPTORS
            )
            if flags & socket.MSG_CTRUNC:
                raise DataServiceUnavailable(
                    "this process has too many open files for another batch: let go of batches, or "
                    "raise the limit (ulimit -n)"
                )
        except OSError as error:
            raise DataServiceUnavailable("the receiver of this host is gone") from error
        if not data:
            raise DataServiceUnavailable("the receiver of this host is gone")
        self._buffer += data
        self._descriptors.extend(descriptors)


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
