"""tf.data service without compression: a dispatcher and a worker in one process, as many users do.

The batches are cached in the worker's memory, so that only their transport is left to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import consumer
import numpy as np
import payload
import tensorflow as tf
import variables


def serve() -> None:
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    print(address.rpartition(":")[2], flush=True)
    worker.join()


def read(port: int) -> Iterator[np.ndarray]:
    folder = os.environ[variables.PAYLOAD]
    names = [f"{folder}/{index}.bin" for index in range(payload.COUNT)]
    batches = tf.data.Dataset.from_tensor_slices(names).map(
        lambda name: tf.io.decode_raw(tf.io.read_file(name), tf.uint8)
    )
    distributed = tf.data.experimental.service.distribute(
        processing_mode=tf.data.experimental.service.ShardingPolicy.OFF,
        service=f"grpc://127.0.0.1:{port}",
        compression=None,
        data_transfer_protocol="grpc",
    )
    # Without a prefetch of one's own, tf.data adds one that grows: to 9 GB were measured here, and
    # filling them takes more than 20 s, in which others are to be measured. Two are no slower.
    return batches.cache().repeat().apply(distributed).prefetch(2).as_numpy_iterator()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        consumer.serve(read(int(sys.argv[2])))
