"""The other end of every consumer: opens windows in turns, and reads the processor time."""

from __future__ import annotations

import json
import select
import socket
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from data_service_parts.inside.variables import HARNESS, SIDE
from data_service_parts.processes import Tree
from table.rows import Invalid

_GB = 1e9
#: Seconds that a consumer may take between two words.
_PATIENCE = 180.0
#: Seconds that a look at the processor time of what waits takes, the share of a processor that
#: waiting may use, and the seconds that refilling buffers may take.
_LOOK, _IDLE, _SETTLE = 0.2, 0.15, 20.0


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one window is: it lasts `seconds`, and `least` batches.

    warm: before it, so that what had piled up while others were measured is gone. held: batches
    that the consumer keeps. verify: batches whose checksums are compared, before and after. sleep,
    spin: seconds that a step of training waits, or keeps the interpreter to itself.
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
    """What was measured. Processor seconds are of whole trees, kernel time included.

    trainer_programs: those of the trainer's host per GB, by the program that used them.
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
    """Processes that bring batches to a consumer; `trainer` are those on the trainer's host."""

    name: str
    trainer: Tree
    data: Tree

    def start(self, variables: Mapping[str, str]) -> None: ...

    def stop(self) -> None: ...

    def output(self) -> str: ...


class Harness:
    """Starts sides and measures them by turns."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._consumers: dict[str, Any] = {}
        self._sides: dict[str, Side] = {}

    def start(self, side: Side, variables: Mapping[str, str], patience: float = 90.0) -> None:
        """Start a side; returns when its consumer is there."""
        side.start(self.variables(side, variables))
        self.await_consumer(side, patience)

    def variables(self, side: Side, others: Mapping[str, str]) -> dict[str, str]:
        """What the processes of a side start with."""
        host, port = self._listener.getsockname()
        return {HARNESS: f"{host}:{port}", SIDE: side.name, **others}

    def await_consumer(self, side: Side, patience: float = 90.0) -> None:
        """Until the consumer of a side that was started is there."""
        self._consumers[side.name] = self._await(side, patience)
        self._sides[side.name] = side

    def stop(self, side: Side) -> None:
        if lines := self._consumers.pop(side.name, None):
            lines.close()
        self._sides.pop(side.name, None)
        side.stop()

    def measure(self, side: Side, order: Order) -> Window:
        """One window of a side; raises Invalid when a batch was not what it should be."""
        if len(self._sides) > 1:
            self._settle()
        self._say(side, vars(order))
        before = self._note(side)
        closing = self._note(side)
        after = self._hear(side)
        if after["wrong"]:
            raise Invalid(f"{side.name}: {after['wrong']} batches were wrong, late or double")
        seconds = closing.moment - before.moment
        word = closing.word
        trainer = closing.trainer - before.trainer
        gigabytes = word["bytes"] / _GB * seconds / word["seconds"]
        return Window(
            batches=word["batches"],
            seconds=word["seconds"],
            bytes_per_second=word["bytes"] / word["seconds"],
            trainer_cpu_per_gb=sum(trainer.values()) / gigabytes,
            data_cpu_per_gb=(closing.data - before.data).total() / gigabytes,
            trainer_programs={name: used / gigabytes for name, used in trainer.items()},
            longest_gap=word["longest_gap"],
            median_gap=word["median_gap"],
        )

    def ask(self, side: Side, **words: Any) -> dict[str, Any]:
        """For consumers of other kinds: say something, and hear the answer."""
        self._say(side, words)
        return self._hear(side)

    # ---------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait until all sides have refilled their buffers, at whose cost it would be measured."""
        deadline = time.monotonic() + _SETTLE
        before = self._used()
        while time.monotonic() < deadline:
            time.sleep(_LOOK)
            now = self._used()
            if now - before <= _IDLE * _LOOK:
                return
            before = now
        raise Invalid(f"a side does not come to rest: {', '.join(self._sides)}")

    def _used(self) -> float:
        trees = [tree for side in self._sides.values() for tree in (side.trainer, side.data)]
        return sum(tree.cpu_seconds().total() for tree in trees)

    def _note(self, side: Side) -> _Note:
        """Hear that a window opens or closes, read the clocks, and let the consumer go on."""
        word = self._hear(side)
        note = _Note(word, time.perf_counter(), side.trainer.cpu_seconds(), side.data.cpu_seconds())
        self._say(side, {})
        return note

    def _say(self, side: Side, words: Mapping[str, Any]) -> None:
        lines = self._consumers[side.name]
        lines.write(json.dumps(words) + "\n")
        lines.flush()

    def _hear(self, side: Side) -> dict[str, Any]:
        try:
            line = self._consumers[side.name].readline()
        except TimeoutError as error:
            what = f"{side.name} said nothing for {_PATIENCE:.0f} s"
            raise Invalid(f"{what}:\n{side.output()[-2000:]}") from error
        if not line:
            raise Invalid(f"{side.name} ended:\n{side.output()[-2000:]}")
        return dict(json.loads(line))

    def _await(self, side: Side, patience: float) -> Any:
        deadline = time.monotonic() + patience
        while not select.select([self._listener], [], [], 0.5)[0]:
            if time.monotonic() > deadline or not side.trainer.pids():
                raise Invalid(f"{side.name} did not come up:\n{side.output()[-2000:]}")
        connection, _ = self._listener.accept()
        connection.settimeout(_PATIENCE)
        lines = connection.makefile("rw")
        name = json.loads(lines.readline())["side"]
        if name != side.name:
            raise Invalid(f"{name} came up instead of {side.name}")
        return lines


@dataclass(frozen=True)
class _Note:
    word: dict[str, Any]
    moment: float
    trainer: Counter[str]
    data: Counter[str]
