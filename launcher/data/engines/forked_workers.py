"""Worker processes beside the script, for a loader outside any data group: DataLoader(workers=2).

They are forks of the script's process, as torch's are on Linux, so they read any dataset that the
script has. Step n is prepared by worker n modulo their number, from the plan alone, and its frame
arrives over a socket pair. A batch is the same bytes as one that the script prepares itself, and a
worker that dies is replaced and asked again. Batches of plain data alone, such as ragged lists of
numbers, arrive as marshal writes them, which reads nothing that this program has not forked.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import marshal
import os
import signal
import socket
import struct
import sys
import traceback
import warnings
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from launcher.data.batches import (
    PlainBatch,
    WireFrame,
    batch_memory,
    copy_plain,
    structure,
    wire,
)
from launcher.data.memory import BatchSlabs, SlabViews
from launcher.data.order import Parts, SecondPreparations, with_original_type
from launcher.data.repeatable import OneThread, end_idle_threads
from launcher.errors import DataError, SampleError
from launcher.runtime import handle_signals_here, log_event, print_whole_lines

#: Batches that a worker prepares ahead, as torch's prefetch_factor.
_AHEAD = 2
#: Deaths of workers in one epoch after which it fails.
_MOST_DEATHS = 3
_STEP = struct.Struct("<Q")
_FAILED = "failed"
#: Of a frame whose one array is a plain batch.
_PLAIN = "plain"
#: Of a frame that says that a slab, whose number is its step, will not be used again.
_RETIRED = "retired"
#: The version of marshal's format that writes an object anew wherever it is held, as JSON does.
_MARSHAL_VERSION = 2
#: This process's ends of the connections, which its forks must not keep open.
_connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()
#: Processes that were told to end, until they are reaped: to wait for two takes 30 ms of an epoch.
_dismissed: set[int] = set()

Payload = npt.NDArray[np.uint8]
#: Loads the batch of a step, as the kind, the tree and the arrays of its frame.
Load = Callable[[int], tuple[str, structure.Tree, list[structure.Array]]]


@dataclass(eq=False)
class _ForkedWorker:
    """One process, its connection, and the steps that it was asked for."""

    pid: int
    connection: socket.socket
    asked: collections.deque[int] = field(default_factory=collections.deque)
    _views: SlabViews = field(default_factory=lambda: SlabViews(collections.deque()))

    def ask(self, step: int) -> None:
        self.asked.append(step)
        with contextlib.suppress(OSError):  # it has died, which the next receive detects
            self.connection.sendall(_STEP.pack(step))

    def receive(self) -> tuple[wire.Header, Payload] | None:
        """Return the next frame; None if the process has died.

        Raises DataError if this process has reached its limit of open files.
        """
        while self._views.released:
            self._views.give_back(self._views.released.popleft())
        try:
            while (frame := self._receive_frame()) is not None and frame[0].run == _RETIRED:
                self._views.forget(frame[0].step)
        except OSError:
            return None
        if frame is None:
            return None
        self.asked.popleft()
        return frame

    def _receive_frame(self) -> tuple[wire.Header, Payload] | None:
        start = bytearray(wire.START_BYTES)
        if not wire.receive_exactly(self.connection, memoryview(start)):
            return None
        header = wire.read_start(start)
        if header.worker:
            return header, self._in_slab(int(header.worker), header.payload_bytes)
        payload = np.empty(header.payload_bytes, np.uint8)
        if not wire.receive_exactly(self.connection, payload.data):
            return None
        return header, payload

    def _in_slab(self, slab: int, size: int) -> Payload:
        """Return the payload in a slab, whose descriptor follows the first frame in it."""
        if slab not in self._views:
            byte, descriptors, _, _ = socket.recv_fds(self.connection, 1, 1)
            if not byte:
                raise ConnectionError("the worker has died")
            if not descriptors:
                raise DataError(
                    "this process has too many open files for another batch: close some, or raise "
                    "the limit (ulimit -n)"
                )
            try:
                self._views.add(slab, descriptors[0])
            except OSError as error:
                raise DataError(f"a batch of {size >> 20} MiB cannot be mapped: {error}") from error
        return self._views.payload(slab, size)

    def dismiss(self) -> None:
        """End the process without waiting until the kernel has taken down its memory."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        _dismissed.add(self.pid)

    def end(self) -> int:
        """End the process and return its status, as os.waitpid does."""
        self.dismiss()
        _dismissed.discard(self.pid)
        try:
            return os.waitpid(self.pid, 0)[1]
        except ChildProcessError:  # the script has waited for all its children
            return 0


def read_with_workers(
    count: int, steps: int, prepare: Callable[[], Load], stream: str, seconds: SecondPreparations
) -> Generator[Parts, None, None]:
    """Yield the batches of all steps in order, prepared by `count` processes.

    prepare: called once in each process; returns the function that loads a batch. seconds: which
    batches the next process prepares again, after those that it was asked for before.

    Raises what a batch raised, and DataError when workers die again and again.
    """
    workers: list[_ForkedWorker] = []
    deaths = 0

    def receive(number: int) -> tuple[wire.Header, Payload]:
        nonlocal deaths
        while (frame := workers[number].receive()) is None:
            deaths += 1
            workers[number] = _replace(workers[number], prepare, deaths, stream)
        return frame

    def compare_before(number: int, step: int | None) -> None:
        """Receive what a worker prepares again before it prepares a step."""
        while workers[number].asked and (again := workers[number].asked[0]) != step:
            seconds.compare(again, *_content(*receive(number)))

    def first(step: int) -> Parts:
        number = step % count
        compare_before(number, step)
        frame = receive(number)
        if step + _AHEAD * count < steps:
            workers[number].ask(step + _AHEAD * count)
        parts = _content(*frame)
        if seconds.is_to_come(step, *parts):
            workers[(step + 1) % len(workers)].ask(step)
        return parts

    try:
        for number in range(min(count, steps)):
            workers.append(_fork(prepare))
            for step in range(number, min(steps, number + _AHEAD * count), count):
                workers[number].ask(step)
        for step in range(steps):
            yield first(step)  # keep no reference
        for number in range(len(workers)):
            compare_before(number, None)
    finally:
        for worker in workers:
            worker.dismiss()


def _content(header: wire.Header, payload: Payload) -> Parts:
    tree, arrays = wire.unpack(payload, header.content_bytes)
    if header.run == _PLAIN:
        return PlainBatch(marshal.loads(arrays[0].data)), []
    if header.run != _FAILED:
        return tree, arrays
    message, index, remote_traceback, type_names = tree
    error = DataError(message)
    if remote_traceback is not None:
        error = SampleError(message, index=index, remote_traceback=remote_traceback)
    raise with_original_type(error, type_names)


def _reap() -> None:
    """Take the status of processes that have ended, so that they do not stay in the table."""
    for pid in tuple(_dismissed):
        with contextlib.suppress(ChildProcessError):  # the script has waited for all its children
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        _dismissed.discard(pid)


def _replace(
    worker: _ForkedWorker, prepare: Callable[[], Load], deaths: int, stream: str
) -> _ForkedWorker:
    status = worker.end()
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit code {status >> 8}"
    step = worker.asked[0]
    if deaths > _MOST_DEATHS:
        raise DataError(
            f"workers of {stream} died {deaths} times in one epoch, the last by {how} at step "
            f"{step}: read it with workers=0 to see why; signal 9 is mostly a lack of memory"
        )
    why = f"a worker of {stream} died by {how} at step {step}, and is replaced"
    log_event("local_worker_died", logging.WARNING, stream=stream, step=step, how=how, why=why)
    replacement = _fork(prepare)
    for each in worker.asked:
        replacement.ask(each)
    return replacement


# In the worker's process -----------------------------------------------------------------------


def _fork(prepare: Callable[[], Load]) -> _ForkedWorker:
    _reap()
    _flush_prints()
    ours, theirs = socket.socketpair()
    with warnings.catch_warnings():
        # Python 3.12 warns of any fork beside threads; the fork takes none of their locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _run(ours, theirs, prepare)
    theirs.close()
    _connections.add(ours)
    return _ForkedWorker(pid, ours)


def _run(ours: socket.socket, theirs: socket.socket, prepare: Callable[[], Load]) -> NoReturn:
    """Serve steps until the script's process closes the connection; never returns."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        handle_signals_here({signal.SIGINT: lambda *_: None})  # Ctrl-C is for the script
        print_whole_lines()  # it ends without a moment for what is buffered
        for inherited in (ours, *_connections):
            inherited.close()
        # A process that the dataset forks may live longer, and would hide that this one has died.
        os.register_at_fork(after_in_child=theirs.close)
        with OneThread() as one_thread:
            end_idle_threads()
            _serve(theirs, prepare, one_thread)
    except OSError:  # the script has gone on
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the process must not go on with the script's code
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _flush_prints() -> None:
    """Print what the script has printed, which the fork would print again."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # there is none, or it is closed
            stream.flush()


def _serve(connection: socket.socket, prepare: Callable[[], Load], one_thread: OneThread) -> None:
    load: Load | None = None
    sender = _BatchSender(connection)
    while len(asked := connection.recv(_STEP.size, socket.MSG_WAITALL)) == _STEP.size:
        (step,) = _STEP.unpack(asked)
        try:
            load = load or prepare()
            sender.begin()
            run, tree, arrays = one_thread.call(functools.partial(load, step))
        except DataError as error:
            is_sample = isinstance(error, SampleError)
            message, _, rest = str(error).partition("\n") if is_sample else (str(error), "", "")
            index = error.index if isinstance(error, SampleError) else None
            names = list(error.type_names)
            tree, arrays, run = [message, index, rest if is_sample else None, names], [], _FAILED
        sender.send(run, step, tree, arrays)
        del tree, arrays  # whose memory is for the next batch


class _BatchSender:
    """Sends batches to the script's process: large ones in shared memory, which both map."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sent: set[int] = set()  # numbers of the slabs that the script's process has
        self._slabs = BatchSlabs(self._retire)
        batch_memory.set(self._slabs.memory_for)
        self.begin = self._slabs.begin

    def send(
        self, run: str, step: int, tree: structure.Tree, arrays: list[structure.Array]
    ) -> None:
        frame, slab = self._slabs.frame(run, step, tree, arrays)
        frame.send(self._connection)
        if slab is not None and slab.number not in self._sent:
            socket.send_fds(self._connection, [b"."], [slab.descriptor])
            self._sent.add(slab.number)

    def _retire(self, slab: int) -> None:
        if slab in self._sent:
            self._sent.discard(slab)
            WireFrame.pack(_RETIRED, slab, "", None, []).send(self._connection)


def disassemble_plainly(
    batch: object, **sending: bool
) -> tuple[str, structure.Tree, list[structure.Array]]:
    """Return the kind, the tree and the arrays of a batch's frame; sending: of its stream."""
    if (plain := copy_plain(batch)) is None:
        return "", *structure.disassemble(batch, **sending)
    written = marshal.dumps(plain.content, _MARSHAL_VERSION)
    return _PLAIN, None, [np.frombuffer(written, np.uint8)]
