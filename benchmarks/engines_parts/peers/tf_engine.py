"""tf.data service: a dispatcher, and worker servers in processes of their own.

serve WORKERS prints the dispatcher's port; read PORT WORKERS has the consumer. Servers are forked
from a process that has imported TensorFlow, so that sixteen do not need a minute to start.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import consumer
import tensorflow as tf
import tf_work
import work
from samples_check import Samples

_service = tf.data.experimental.service


def serve(workers: int) -> None:
    pipes = [_fork_worker() for _ in range(workers)]
    dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=0))
    address = dispatcher.target.split("://")[1]
    for pipe in pipes:
        os.write(pipe, address.encode())
        os.close(pipe)
    while dispatcher._num_workers() < workers:  # what TensorFlow's own tests ask
        time.sleep(0.1)
    print(address.rpartition(":")[2], flush=True)
    dispatcher.join()


def _fork_worker() -> int:
    """Fork a worker server, which reads the dispatcher's address from the pipe returned."""
    theirs, ours = os.pipe()
    if os.fork():
        os.close(theirs)
        return ours
    os.close(ours)
    address = os.read(theirs, 100).decode()
    worker = _service.WorkerServer(_service.WorkerConfig(dispatcher_address=address))
    worker.join()
    sys.exit()


def read(port: int, workers: int) -> Iterator[Any]:
    distributed = _service.distribute(
        processing_mode=_service.ShardingPolicy.DYNAMIC,
        service=f"grpc://127.0.0.1:{port}",
        compression=None,
        data_transfer_protocol="grpc",
        max_outstanding_requests=2 * workers,
    )
    batches = tf_work.batches(os.environ[work.KIND], int(os.environ[work.BATCH]))
    # Without a prefetch of one's own, tf.data adds one that grows without an end here.
    return batches.apply(distributed).prefetch(2).as_numpy_iterator()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        consumer.serve(read(int(sys.argv[2]), int(sys.argv[3])), Samples())
