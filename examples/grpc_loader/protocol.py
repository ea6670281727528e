"""What server and loader agree on: names, requests, messages, and who gets which samples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

PORT = 50051
LENGTH = "/grpc_loader.Batches/Length"  # a split's name -> its length, as text
STREAM = "/grpc_loader.Batches/Stream"  # a Share -> a Total and then the batches, as bytes
OPTIONS = [
    # A host that has gone without a word, network and all, is noticed after 10 + 10 seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    # A side that had no CPU for a while sees several pings at once; it does not hang up for that.
    ("grpc.http2.max_ping_strikes", 0),
    # Bytes under way on a stream, at most; gRPC would let them grow with the speed of the link.
    ("grpc.http2.lookahead_bytes", 1024 * 1024),
    ("grpc.http2.bdp_probe", 0),
]


@dataclass(frozen=True, kw_only=True)
class Share:
    """One rank's part of one epoch that comes from one server.

    A shuffled epoch is cut into one batch per step and rank, all of (nearly) the same size, so that
    each sample occurs once and all ranks make the same number of steps. A rank takes its batches
    from the servers in turn.
    """

    split: str
    epoch: int
    seed: int
    batch_size: int
    rank: int
    world_size: int
    server: int
    servers: int

    def steps(self, length: int) -> int:
        """Batches of each rank in an epoch, from all servers together."""
        return -(-length // (self.batch_size * self.world_size))

    def batches(self, length: int) -> Iterator[np.ndarray]:
        """The ids of the samples of each batch of this share, in order."""
        order = np.random.default_rng((self.seed, self.epoch)).permutation(length)
        steps = self.steps(length)
        every = np.array_split(order, steps * self.world_size)
        for step in range(self.server, steps, self.servers):
            yield every[step * self.world_size + self.rank]

    def to_bytes(self) -> bytes:
        return json.dumps(vars(self)).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Share:
        return cls(**json.loads(text))


@dataclass(frozen=True, kw_only=True)
class Total:
    """What a server announces at the start of a stream; the loader counts after it."""

    batches: int
    samples: int

    def to_bytes(self) -> bytes:
        return json.dumps(vars(self)).encode()

    @classmethod
    def from_bytes(cls, text: bytes) -> Total:
        return cls(**json.loads(text))


def encode(arrays: dict[str, np.ndarray]) -> bytes:
    """A batch: one line of JSON that describes the arrays, and then their bytes."""
    kinds = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    return b"".join([json.dumps(kinds).encode(), b"\n", *(a.tobytes() for a in arrays.values())])


def decode(message: bytes) -> dict[str, np.ndarray]:
    """The arrays of a batch; writable, as torch wants them."""
    start = message.index(b"\n") + 1
    content = memoryview(bytearray(message))
    arrays = {}
    for name, (kind, shape) in json.loads(message[:start]).items():
        end = start + np.dtype(kind).itemsize * int(np.prod(shape))
        arrays[name] = np.frombuffer(content[start:end], dtype=kind).reshape(shape)
        start = end
    return arrays
