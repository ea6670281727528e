"""The consumer of every side: reads batches on request, times a window, and verifies them.

It runs in place of the training script, whatever delivers the batches, and notifies the harness
when its window opens and closes, so that processor time is read at the same moments. Checksums are
verified outside the window; inside, only the ends of each batch are checked.
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


class HarnessConnection:
    """Connection to the harness, with one JSON object per line."""

    def __init__(self) -> None:
        address, _, port = os.environ[variables.HARNESS].rpartition(":")
        self._connection = socket.create_connection((address, int(port)))
        self._lines = self._connection.makefile("rw")
        self.send(side=os.environ[variables.SIDE])

    def send(self, **words: Any) -> None:
        self._lines.write(json.dumps(words) + "\n")
        self._lines.flush()

    def receive(self) -> dict[str, Any] | None:
        """Return the next message of the harness, or None at its end."""
        line = self._lines.readline()
        return json.loads(line) if line else None

    def send_and_wait(self, **words: Any) -> None:
        """Send a message, and wait until the harness has handled it."""
        self.send(**words)
        self.receive()


def serve(batches: Iterator[Any], check: Check | None = None) -> None:
    """Read batches as the harness requests, until it closes the connection.

    check: compares them with the expected ones; by default the bytes of the payload's files.
    """
    reader = _Reader(batches, check or Payloads())
    connection = HarnessConnection()
    while (order := connection.receive()) is not None:
        reader.verify(order["verify"])
        reader.read(seconds=order["warm_seconds"], least=order["warm_batches"], order=order)
        connection.send_and_wait(opens=True)
        gaps = reader.read(seconds=order["seconds"], least=order["least"], order=order)
        connection.send_and_wait(
            closes=True,
            batches=len(gaps),
            bytes=len(gaps) * reader.size,
            seconds=sum(gaps),
            longest_gap=max(gaps),
            median_gap=statistics.median(gaps),
        )
        reader.verify(order["verify"])
        connection.send(wrong=reader.wrong)


class _Reader:
    def __init__(self, batches: Iterator[Any], check: Check) -> None:
        self._batches = batches
        self._check = check
        self._step = 0
        self.wrong = 0
        self.size = check.size

    def read(self, *, seconds: float, least: int, order: dict[str, Any]) -> list[float]:
        """Read for some seconds and at least `least` batches; return the times between them."""
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
        """Read `count` batches and check their checksums."""
        for _ in range(count):
            self.wrong += not self._check.is_right(next(self._batches), self._step)
            self._step += 1


def _compute(sleep: float, spin: float) -> None:
    """Act as a training step: wait for a device, or hold the interpreter lock."""
    if sleep:
        time.sleep(sleep)
    end = time.perf_counter() + spin
    while time.perf_counter() < end:
        pass
