"""A watchdog for each batch of tf.data's service, whose client waits for ever for a lost worker."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

import tensorflow as tf

from launcher.runtime.event_log import emit
from launcher.runtime.rank import report_cause

#: Seconds between two looks at the clock.
_POLL = 0.5
#: Seconds of waiting after which an event names the stream.
_LOG_AFTER = 30.0


def watched(dataset: tf.data.Dataset, stream: str, timeout: float) -> tf.data.Dataset:
    """Return the dataset; this process ends when one of its elements takes longer than `timeout`.

    Elements are not touched: a turn is taken before each is asked for, and noted after it came.
    """
    watchdog = BatchWatchdog(stream, timeout)
    turns = tf.data.Dataset.from_generator(
        watchdog.turns, output_signature=tf.TensorSpec((), tf.int64)
    )
    end = tf.data.Dataset.from_generator(watchdog.end, output_signature=dataset.element_spec)

    def note(turn: tf.Tensor, element: object) -> object:
        with tf.control_dependencies([tf.numpy_function(watchdog.arrived, [turn], tf.int64)]):
            return tf.nest.map_structure(_same, element)

    return tf.data.Dataset.zip((turns, dataset.concatenate(end))).map(note)


def _same(part: object) -> object:
    """Return a part of an element as an operation of its own; parts may be None."""
    return None if part is None else tf.identity(part)


class BatchWatchdog:
    """Ends this process when an element that was asked for does not arrive in time."""

    def __init__(self, stream: str, timeout: float) -> None:
        self._stream, self._timeout = stream, timeout
        self._asked_at: float | None = None  # of the element that is waited for
        self._taken = 0
        self._iteration = 0  # the latest
        self._thread: threading.Thread | None = None

    def turns(self) -> Iterator[int]:
        """Yield a number for each element, at the moment when it is asked for."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="batches", daemon=True)
            self._thread.start()
        self._taken = 0
        self._iteration = mine = self._iteration + 1
        try:
            while True:
                self._asked_at = time.monotonic()
                yield self._taken
        finally:  # dropped while it waits, as after take(): nobody wants that element any more
            if self._iteration == mine:
                self._asked_at = None

    def arrived(self, turn: object) -> object:
        """Note that an element has arrived."""
        self._asked_at = None
        self._taken += 1
        return turn

    def end(self) -> Iterator[NoReturn]:
        """Note that there is no further element; yields nothing."""
        self._asked_at = None
        yield from ()

    def _watch(self) -> None:
        """Look at the clock until the process ends."""
        pause, has_logged = threading.Event(), False
        while not pause.wait(_POLL):
            asked_at = self._asked_at
            waited = 0.0 if asked_at is None else time.monotonic() - asked_at
            if waited > self._timeout:
                self._fail()
            if has_logged != (waited > _LOG_AFTER):
                has_logged = not has_logged
                if has_logged:
                    emit("data_awaited", what=f"a batch of {self._stream}", seconds=round(waited))

    def _fail(self) -> NoReturn:
        """End the process: nothing can be raised in a thread that waits inside TensorFlow."""
        cause = (
            f"DataServiceUnavailable: no batch of {self._stream} arrived within {self._timeout:g} "
            f"s, after {self._taken} in this epoch: the data hosts' events show what they do; make "
            "the dataset quicker, or give distribute() a longer timeout"
        )
        report_cause(cause)
        sys.stderr.write(f"{cause}\n")
        sys.stderr.flush()
        os._exit(1)
