"""tf.data's service as ranks read it: names, sharding and waits that leave no fault silent."""

from __future__ import annotations

import collections
import numbers
import os
from typing import Literal

import tensorflow as tf

from launcher.data.tf.batch_watchdog import watched
from launcher.errors import DataError, DataServiceUnavailable
from launcher.runtime.environment import TF_SERVICE_VARIABLE
from launcher.shared.system_entropy import token_hex

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
