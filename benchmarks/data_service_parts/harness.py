"""Harness of all consumers: opens their windows in turn and reads the processor time."""

from __future__ import annotations

import json
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from data_service_parts.inside.variables import HARNESS, SIDE
from data_service_parts.processes import Tree
from table.rows import Invalid

_GB = 1e9
#: Seconds that a consumer may take between two messages.
_TIMEOUT = 180.0
#: Seconds between two readings of the idle sides' processor time, the share of a processor that an
#: idle side may use, and the seconds within which all sides must have refilled their buffers.
_POLL, _IDLE, _IDLE_TIMEOUT = 0.2, 0.15, 20.0


@dataclass(frozen=True, kw_only=True)
class Order:
    """Request for one window, which lasts at least `seconds` and `least` batches.

    warm: what is read before it, to use up the batches buffered while others were measured. held:
    batches that the consumer keeps. verify: batches whose checksums are compared, before and after.
    sleep, spin: seconds that a training step waits, or holds the interpreter lock.
    """

    seconds: float = 1.5
    least: int = 4
    warm_seconds: float = 0.3
    warm_batches: int = 4
    held: int = 1
    verify: int = 3
    sleep: float = 0.0
    spin: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Window:
    """Measurements of one window. Processor seconds are of process trees, kernel time included.

    trainer_programs: processor seconds of the trainer's host per GB, by program.
    """

    batches: int
    seconds: float
    bytes_per_second: float
    trainer_cpu_per_gb: float
    data_cpu_per_gb: float
    trainer_programs: Mapping[str, float]
    longest_gap: float
    median_gap: float

    @property
    def batches_per_second(self) -> float:
        return self.batches / self.seconds


class Side(Protocol):
    """Processes that deliver batches to a consumer; `trainer` are those on the trainer's host."""

    name: str
    trainer: Tree
    data: Tree

    def start(self, variables: Mapping[str, str]) -> None: ...

    def stop(self) -> None: ...

    def output(self) -> str: ...


class Harness:
    """Starts sides and measures them in turn."""

    def __init__(self, idle: float = _IDLE) -> None:
        """idle: the share of a processor that all sides together may use while none is read."""
        self._idle = idle
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._consumers: dict[str, Any] = {}
        self._sides: dict[str, Side] = {}

    def start(self, side: Side, variables: Mapping[str, str], patience: float = 90.0) -> None:
        """Start a side; return when its consumer has connected."""
        side.start(self.variables(side, variables))
        self.await_consumer(side, patience)

    def variables(self, side: Side, others: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables of a side's processes."""
        host, port = self._listener.getsockname()
        return {HARNESS: f"{host}:{port}", SIDE: side.name, **others}

    def await_consumer(self, side: Side, patience: float = 90.0) -> None:
        """Wait until the consumer of a started side has connected."""
        self._consumers[side.name] = self._await(side, patience)
        self._sides[side.name] = side

    def stop(self, side: Side) -> None:
        if lines := self._consumers.pop(side.name, None):
            lines.close()
        self._sides.pop(side.name, None)
        side.stop()

    def measure(self, side: Side, order: Order, wake: Callable[[], None] = lambda: None) -> Window:
        """Measure one window of a side; raise Invalid if a batch was wrong.

        wake: called before, when all sides have become idle.
        """
        if len(self._sides) > 1:
            self._wait_until_idle()
        wake()
        self._send(side, vars(order))
        before = self._read_clocks(side)
        closing = self._read_clocks(side)
        after = self._receive(side)
        if after["wrong"]:
            raise Invalid(f"{side.name}: {after['wrong']} batches were wrong, late or double")
        seconds = closing.moment - before.moment
        message = closing.message
        trainer = closing.trainer - before.trainer
        gigabytes = message["bytes"] / _GB * seconds / message["seconds"]
        return Window(
            batches=message["batches"],
            seconds=message["seconds"],
            bytes_per_second=message["bytes"] / message["seconds"],
            trainer_cpu_per_gb=sum(trainer.values()) / gigabytes,
            data_cpu_per_gb=(closing.data - before.data).total() / gigabytes,
            trainer_programs={name: used / gigabytes for name, used in trainer.items()},
            longest_gap=message["longest_gap"],
            median_gap=message["median_gap"],
        )

    def request(self, side: Side, **words: Any) -> dict[str, Any]:
        """Send a request to a consumer of another kind, and return its answer."""
        self._send(side, words)
        return self._receive(side)

    # ---------------------------------------------------------------------------------------

    def _wait_until_idle(self) -> None:
        """Wait until all sides have refilled their buffers, which would distort the next window."""
        deadline = time.monotonic() + _IDLE_TIMEOUT
        before = self._used()
        while time.monotonic() < deadline:
            time.sleep(_POLL)
            now = self._used()
            busy = now - before
            if busy.total() <= self._idle * _POLL:
                return
            before = now
        shares = (f"{name} {used / _POLL:.2f}" for name, used in busy.most_common(4))
        raise Invalid(f"a side does not become idle; processors in use: {', '.join(shares)}")

    def _used(self) -> Counter[str]:
        """The processor seconds of the programs of each side."""
        used: Counter[str] = Counter()
        for side in self._sides.values():
            for tree in (side.trainer, side.data):
                for program, seconds in tree.cpu_seconds().items():
                    used[f"{side.name}: {program}"] += seconds
        return used

    def _read_clocks(self, side: Side) -> _Reading:
        """Read the clocks when a window opens or closes, then let the consumer continue."""
        message = self._receive(side)
        note = _Reading(
            message, time.perf_counter(), side.trainer.cpu_seconds(), side.data.cpu_seconds()
        )
        self._send(side, {})
        return note

    def _send(self, side: Side, words: Mapping[str, Any]) -> None:
        lines = self._consumers[side.name]
        lines.write(json.dumps(words) + "\n")
        lines.flush()

    def _receive(self, side: Side) -> dict[str, Any]:
        try:
            line = self._consumers[side.name].readline()
        except TimeoutError as error:
            what = f"{side.name} sent no message for {_TIMEOUT:.0f} s"
            raise Invalid(f"{what}:\n{side.output()[-2000:]}") from error
        if not line:
            raise Invalid(f"{side.name} ended:\n{side.output()[-2000:]}")
        return dict(json.loads(line))

    def _await(self, side: Side, patience: float) -> Any:
        deadline = time.monotonic() + patience
        while not select.select([self._listener], [], [], 0.5)[0]:
            if time.monotonic() > deadline or not side.trainer.pids():
                raise Invalid(f"{side.name} did not start:\n{side.output()[-2000:]}")
        connection, _ = self._listener.accept()
        connection.settimeout(_TIMEOUT)
        lines = connection.makefile("rw")
        name = json.loads(lines.readline())["side"]
        if name != side.name:
            raise Invalid(f"{name} connected instead of {side.name}")
        return lines


@dataclass(frozen=True)
class _Reading:
    message: dict[str, Any]
    moment: float
    trainer: Counter[str]
    data: Counter[str]
