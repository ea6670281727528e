"""A gRPC stream in Python whose messages hold batches as bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import consumer
import grpc
import numpy as np
import payload
import variables
from example import METHOD, OPTIONS, Example


def serve(examples: Iterator[Example]) -> None:
    """Serve one client with these messages, for ever."""

    def stream(_request: bytes, _context: grpc.ServicerContext) -> Iterator[Example]:
        return examples

    _, service, method = METHOD.split("/")
    handler = grpc.unary_stream_rpc_method_handler(
        stream, response_serializer=Example.SerializeToString
    )
    server = grpc.server(ThreadPoolExecutor(1), options=OPTIONS)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {method: handler})]
    )
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


def read(port: int) -> Iterator[Example]:
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
    method = channel.unary_stream(METHOD, response_deserializer=Example.FromString)
    return method(b"", wait_for_ready=True)


def _ready_examples() -> Iterator[Example]:
    batches = [batch.tobytes() for batch in payload.read(Path(os.environ[variables.PAYLOAD]))]
    while True:
        for batch in batches:
            yield Example(image=batch, label=b"0")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(_ready_examples())
    else:
        consumer.serve(np.frombuffer(example.image, np.uint8) for example in read(int(sys.argv[2])))
