"""The consumer of every side: reads batches when it is told to, times a window, verifies.

It runs in the process that stands for the training script, whatever brings the batches there, and
says to the harness when its window opens and closes, so that processor time is read at the same
moments. Checksums are verified outside the window; inside, the ends of each batch are looked at.
"""

from __future__ import annotations

import collections
import json
import os
import socket
import statistics
import time
from collections.abc import Iterator
from typing import Any

import variables
from checks import Check, Payloads


class Conversation:
    """Lines of JSON to and from the harness."""

    def __init__(self) -> None:
        address, _, port = os.environ[variables.HARNESS].rpartition(":")
        self._connection = socket.create_connection((address, int(port)))
        self._lines = self._connection.makefile("rw")
        self.say(side=os.environ[variables.SIDE])

    def say(self, **words: Any) -> None:
        self._lines.write(json.dumps(words) + "\n")
        self._lines.flush()

    def hear(self) -> dict[str, Any] | None:
        """The next word of the harness; None when it has gone."""
        line = self._lines.readline()
        return json.loads(line) if line else None

    def ask(self, **words: Any) -> None:
        """Say something, and wait until the harness has noted it."""
        self.say(**words)
        self.hear()


def serve(batches: Iterator[Any], check: Check | None = None) -> None:
    """Read from these batches as the harness asks, until it hangs up.

    check: what they should be; by default the bytes of the payload's files.
    """
    reader = _Reader(batches, check or Payloads())
    conversation = Conversation()
    while (order := conversation.hear()) is not None:
        reader.verify(order["verify"])
        reader.read(seconds=order["warm_seconds"], least=order["warm_batches"], order=order)
        conversation.ask(opens=True)
        gaps = reader.read(seconds=order["seconds"], least=order["least"], order=order)
        conversation.ask(
            closes=True,
            batches=len(gaps),
            bytes=len(gaps) * reader.size,
            seconds=sum(gaps),
            longest_gap=max(gaps),
            median_gap=statistics.median(gaps),
        )
        reader.verify(order["verify"])
        conversation.say(wrong=reader.wrong)


class _Reader:
    def __init__(self, batches: Iterator[Any], check: Check) -> None:
        self._batches = batches
        self._check = check
        self._step = 0
        self.wrong = 0
        self.size = check.size

    def read(self, *, seconds: float, least: int, order: dict[str, Any]) -> list[float]:
        """Read for so long, and at least so many batches; returns the times between them."""
        kept: collections.deque[Any] = collections.deque(maxlen=order["held"])
        gaps: list[float] = []
        before = start = time.perf_counter()
        while len(gaps) < least or before - start < seconds:
            batch = next(self._batches)
            self.wrong += not self._check.looks_right(batch, self._step)
            self._step += 1
            kept.append(batch)
            del batch
            _compute(order["sleep"], order["spin"])
            now = time.perf_counter()
            gaps.append(now - before)
            before = now
        return gaps

    def verify(self, count: int) -> None:
        """Read batches whose every byte is checked."""
        for _ in range(count):
            self.wrong += not self._check.is_right(next(self._batches), self._step)
            self._step += 1


def _compute(sleep: float, spin: float) -> None:
    """What a training step does: wait for a device, or keep the interpreter to itself."""
    if sleep:
        time.sleep(sleep)
    end = time.perf_counter() + spin
    while time.perf_counter() < end:
        pass
