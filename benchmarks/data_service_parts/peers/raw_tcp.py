"""Raw TCP: the limit. One socket, no framing, and one buffer that is used again and again.

read PORT plain    recv_into with all the room that is left
read PORT pieces   1 MiB at a time, MSG_WAITALL
read PORT unsent   the same, from a sender that keeps no more in the kernel than our workers do
read PORT framed   a length and a JSON header before each batch, received into three buffers by
                   turns: a pipeline without any bookkeeping
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import consumer
import numpy as np
import payload
import variables

_PREFIX = struct.Struct("<4sIQ")
_PIECE = 1 << 20
_UNSENT = 64 << 10


def serve(variant: str) -> None:
    batches = payload.read(Path(os.environ[variables.PAYLOAD]))
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if variant == "unsent":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
    for step, batch in enumerate(itertools.cycle(batches)):
        if variant == "framed":
            connection.sendall(_head(step, batch))
        connection.sendall(batch)


def _head(step: int, batch: np.ndarray) -> bytes:
    entry = [batch.dtype.str, list(batch.shape), 0]
    header = json.dumps({"run": "0-0-0", "step": step, "tree": {"array": 0}, "arrays": [entry]})
    return _PREFIX.pack(b"LDF1", len(header), batch.nbytes) + header.encode()


def read(port: int, variant: str) -> Iterator[np.ndarray]:
    connection = socket.create_connection(("127.0.0.1", port))
    size = payload.read(Path(os.environ[variables.PAYLOAD]))[0].nbytes
    receive = _receive if variant == "plain" else _receive_pieces
    buffers = [np.ones(size, np.uint8) for _ in range(3 if variant == "framed" else 1)]
    for step, buffer in enumerate(itertools.cycle(buffers)):
        if variant == "framed":
            _read_head(connection, step)
        receive(connection, memoryview(buffer))
        yield buffer


def _read_head(connection: socket.socket, step: int) -> None:
    prefix = connection.recv(_PREFIX.size, socket.MSG_WAITALL)
    _, header_bytes, _ = _PREFIX.unpack(prefix)
    header = json.loads(connection.recv(header_bytes, socket.MSG_WAITALL))
    assert header["step"] == step


def _receive(connection: socket.socket, target: memoryview) -> None:
    received = 0
    while received < len(target):
        received += _some(connection.recv_into(target[received:]))


def _receive_pieces(connection: socket.socket, target: memoryview) -> None:
    received = 0
    while received < len(target):
        piece = target[received : received + _PIECE]
        received += _some(connection.recv_into(piece, 0, socket.MSG_WAITALL))


def _some(count: int) -> int:
    if count == 0:
        sys.exit("the server has ended")
    return count


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        consumer.serve(read(int(sys.argv[2]), sys.argv[3]))
