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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import payload
import variables


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


def serve(batches: Iterator[Any]) -> None:
    """Read from these batches (flat arrays of bytes) as the harness asks, until it hangs up."""
    reader = _Reader(batches)
    conversation = Conversation()
    while (order := conversation.hear()) is not None:
        reader.verify(order["verify"])
        reader.read(seconds=order["warm_seconds"], least=order["warm_batches"])
        conversation.ask(opens=True)
        count, seconds = reader.read(
            seconds=order["seconds"], least=order["least"], held=order["held"]
        )
        conversation.ask(closes=True, batches=count, seconds=seconds, bytes=count * reader.size)
        reader.verify(order["verify"])
        conversation.say(wrong=reader.wrong)


class _Reader:
    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        folder = Path(os.environ[variables.PAYLOAD])
        self._expected = [payload.Expected.of(batch) for batch in payload.read(folder)]
        self._step = 0
        self.wrong = 0
        self.size = self._expected[0].size

    def read(self, *, seconds: float, least: int, held: int = 1) -> tuple[int, float]:
        """Read for so long, and at least so many batches; returns how many, and the time."""
        kept: collections.deque[Any] = collections.deque(maxlen=held)
        count, start = 0, time.perf_counter()
        while count < least or time.perf_counter() - start < seconds:
            batch, expected = self._next()
            self.wrong += not expected.looks_like(batch)
            kept.append(batch)
            count += 1
        return count, time.perf_counter() - start

    def verify(self, count: int) -> None:
        """Read batches whose every byte is checked."""
        for _ in range(count):
            batch, expected = self._next()
            self.wrong += not expected.equals(batch)

    def _next(self) -> tuple[Any, payload.Expected]:
        expected = self._expected[self._step % len(self._expected)]
        self._step += 1
        return next(self._batches), expected
