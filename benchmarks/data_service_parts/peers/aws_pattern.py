"""The pattern of AWS's PyTorch example for heterogeneous clusters, made anew.

A process puts the bytes of batches into a multiprocessing queue; a gRPC server takes them out into
protobuf messages; the client makes arrays of the bytes and copies these into tensors. The loaders
that the example has at both ends are left out: they would only make it slower.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import consumer
import grpc_stream
import numpy as np
import payload
import variables
from example import Example

_QUEUED = 4  # of the example's 32: more of them only take memory


def _fill(queue: multiprocessing.Queue[tuple[bytes, bytes]]) -> None:
    batches = payload.read(Path(os.environ[variables.PAYLOAD]))
    while True:
        for batch in batches:
            queue.put((batch.tobytes(), b"0"))


def _queued_examples(queue: multiprocessing.Queue[tuple[bytes, bytes]]) -> Iterator[Example]:
    while True:
        image, label = queue.get()
        yield Example(image=image, label=label)


def _read(port: int) -> Iterator[np.ndarray]:
    import torch  # the server does without

    for example in grpc_stream.read(port):
        yield torch.tensor(np.frombuffer(example.image, np.uint8)).numpy()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        queue = multiprocessing.Queue(_QUEUED)
        multiprocessing.Process(target=_fill, args=(queue,), daemon=True).start()  # before threads
        grpc_stream.serve(_queued_examples(queue))
    else:
        consumer.serve(_read(int(sys.argv[2])))
