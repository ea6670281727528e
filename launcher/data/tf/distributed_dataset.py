"""tf.data's service as ranks read it: names, sharding and waits that leave no fault silent."""

from __future__ import annotations

import collections
import numbers
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Literal, NoReturn

import tensorflow as tf

from launcher.errors import DataError, DataServiceUnavailable
from launcher.runtime import TF_SERVICE_VARIABLE, emit, report_cause
from launcher.shared import token_hex

Sharding = Literal["auto", "file", "data", "dynamic"]
_POLICIES = {"auto": "FILE_OR_DATA", "file": "FILE", "data": "DATA", "dynamic": "DYNAMIC"}
#: Seconds without a batch that was asked for, after which the rank fails.
_TIMEOUT = 600.0
#: How often this process has distributed a dataset of each stream.
_epochs: collections.Counter[str] = collections.Counter()


def distribute(
    dataset: tf.data.Dataset,
    *,
    sharding: Sharding = "auto",
    stream: str = "train",
    timeout: float = _TIMEOUT,
    prefetch: int = 2,
    max_outstanding_requests: int | None = None,
) -> tf.data.Dataset:
    """Return a dataset whose elements the job's tf.data workers prepare, without compression.

    Outside a job with `data_service.engine: "tf"`, the dataset is returned as it is, so that one
    script runs on one host as well. In a job, each call is a read of its own: call it for each
    epoch, or iterate over its result again. Each rank reads the whole dataset: take this rank's
    share where the dataset begins, `files.shard(world_size, rank)`.

    sharding: how the workers divide the dataset. "file" by its files, "data" by its elements, and
        "auto" by files if it has any: no element is lost, and those that a worker had prepared are
        read again if it dies (at least once). "dynamic" gives workers the next part when they are
        ready: quicker if they differ, but the parts of a worker that dies are lost (at most once).
    stream: name of the dataset, if a script reads several.
    timeout: seconds without a batch after which this rank fails, and with it the job. TensorFlow
        itself would wait for ever. Start times of hosts count, too.
    prefetch, max_outstanding_requests: batches that this rank holds ahead, and that it has
        requested from workers beside them; by default, TensorFlow chooses as many as are useful.

    Raises DataError for wrong arguments, and DataServiceUnavailable in a job of another engine.
    """
    if sharding not in _POLICIES:
        raise DataError(f"sharding is {sharding!r}; it must be one of {', '.join(_POLICIES)}")
    if not isinstance(timeout, numbers.Real) or not timeout > 0:
        raise DataError(
            f"timeout is {timeout!r}; it must be a number of seconds above 0, or float('inf')"
        )
    if (address := os.environ.get(TF_SERVICE_VARIABLE)) is None:
        _check_no_other_engine()
        return dataset
    policy = getattr(tf.data.experimental.service.ShardingPolicy, _POLICIES[sharding])
    distributed = dataset.apply(
        tf.data.experimental.service.distribute(
            processing_mode=policy,
            service=f"grpc://{address}",
            job_name=_job_name(stream),
            compression=None,
            max_outstanding_requests=max_outstanding_requests,
        )
    )
    return watched(distributed, stream, timeout).prefetch(prefetch)


def _job_name(stream: str) -> str:
    """Return a name under which nothing was read before, in this attempt of the job.

    TensorFlow would return no elements, without a word, for a name whose job has been read.
    """
    _epochs[stream] += 1
    rank = os.environ.get("RANK", "0")
    return f"{stream}-{_epochs[stream]}-rank-{rank}-{token_hex(4)}"


def _check_no_other_engine() -> None:
    from launcher.data.sources import declared_engine

    if (engine := declared_engine()) is not None:
        raise DataServiceUnavailable(
            f'this job has data_service.engine "{engine}": give it engine "tf" to read tf.data\'s '
            "service, or read a DataLoader with launcher.data.tf.from_service"
        )


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
