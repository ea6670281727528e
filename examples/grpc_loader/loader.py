"""A loader over the gRPC servers: this rank's batches, from all servers in turn, as tensors."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn

import grpc
import numpy as np
import torch
from protocol import LENGTH, OPTIONS, PORT, STREAM, Share, Total, decode

_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0), *OPTIONS]


class ServerLost(ConnectionError):
    """A server cannot be reached, went away, or did not send what it had announced."""


class GrpcLoader:
    """Iterate for one epoch after another: (ids, images, labels).

    Every sample of the split occurs once in an epoch, over all ranks; never does an epoch end early
    without ServerLost. prefetch: batches held ahead, per server. patience: seconds to reach a
    server for the first time.
    """

    def __init__(
        self,
        split: str,
        batch_size: int,
        *,
        seed: int = 0,
        servers: Sequence[str] | None = None,
        prefetch: int = 4,
        patience: float = 60.0,
    ) -> None:
        self._split, self._batch_size, self._seed = split, batch_size, seed
        self._prefetch = prefetch
        self._rank = int(os.environ.get("RANK", "0"))
        self._world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self._servers = [_Server(address, patience) for address in servers or servers_of_the_job()]
        self._epoch = 0
        lengths = {server.length(split) for server in self._servers}
        if len(lengths) != 1:
            raise ServerLost(f"the servers have different data: {sorted(lengths)} samples")
        self._length = lengths.pop()
        if len(self) * self._world_size > self._length:
            raise ValueError(
                f"{self._length} samples are too few for equal steps of {self._world_size} ranks: "
                f"use batches of more than {batch_size}"
            )

    def __len__(self) -> int:
        return self._share(0).steps(self._length)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        streams = [
            _Stream(server, self._share(number), self._prefetch)
            for number, server in enumerate(self._servers)
        ]
        self._epoch += 1
        try:
            for step in range(len(self)):
                arrays = streams[step % len(streams)].next_batch()
                yield tuple(torch.from_numpy(arrays[name]) for name in ("ids", "images", "labels"))
            for stream in streams:
                stream.check_end()
        finally:
            for stream in streams:
                stream.close()

    def _share(self, server: int) -> Share:
        return Share(
            split=self._split,
            epoch=self._epoch,
            seed=self._seed,
            batch_size=self._batch_size,
            rank=self._rank,
            world_size=self._world_size,
            server=server,
            servers=len(self._servers),
        )


def servers_of_the_job() -> list[str]:
    """Launcher gives the addresses of every group to every process."""
    return [f"{host}:{PORT}" for host in os.environ["LAUNCHER_HOSTS_SERVER_GROUP"].split(",")]


class _Server:
    """A channel to one server, which is up before this returns."""

    def __init__(self, address: str, patience: float) -> None:
        self.address = address
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self.stream = self._channel.unary_stream(STREAM)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=patience)
        except grpc.FutureTimeoutError:
            raise ServerLost(f"server {address}: no connection for {patience:.0f} s") from None

    def length(self, split: str) -> int:
        with self.errors_named():
            return int(self._channel.unary_unary(LENGTH)(split.encode(), timeout=60))

    @contextlib.contextmanager
    def errors_named(self) -> Iterator[None]:
        """gRPC's errors say neither which server it was, nor much."""
        try:
            yield
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            if code is grpc.StatusCode.UNAVAILABLE:
                raise ServerLost(f"server {self.address}: connection lost: {details}") from error
            raise RuntimeError(f"server {self.address} failed: {code.name}: {details}") from error


class _Stream:
    """One server's part of an epoch, received by a thread into a bounded queue.

    While the queue is full nothing is received, and gRPC's flow control holds the server back.
    """

    def __init__(self, server: _Server, share: Share, prefetch: int) -> None:
        self._server = server
        self._call = server.stream(share.to_bytes())
        self._received: queue.Queue[bytes | Exception | None] = queue.Queue(prefetch)
        self._closed = threading.Event()
        self._announced: Total | None = None
        self._batches = self._samples = 0
        threading.Thread(target=self._receive, daemon=True).start()
        self._announced = Total.from_bytes(self._next() or self._lost())

    def next_batch(self) -> dict[str, np.ndarray]:
        """The arrays of the next batch; raises ServerLost when there is none."""
        arrays = decode(self._next() or self._lost())
        self._batches += 1
        self._samples += len(arrays["ids"])
        return arrays

    def check_end(self) -> None:
        """Raises ServerLost when the server has more to send, or had announced another total."""
        received = Total(batches=self._batches, samples=self._samples)
        if self._next() is not None or received != self._announced:
            self._lost()

    def close(self) -> None:
        self._closed.set()
        self._call.cancel()

    def _next(self) -> bytes | None:
        """The next message; None at the end of the stream."""
        message = self._received.get()
        if isinstance(message, Exception):
            with self._server.errors_named():
                raise message
        return message

    def _lost(self) -> NoReturn:
        raise ServerLost(
            f"server {self._server.address}: the stream is not as announced: {self._batches} "
            f"batches ({self._samples} samples) came, announced was {self._announced}"
        )

    def _receive(self) -> None:
        try:
            for message in self._call:
                self._put(message)
            self._put(None)
        except grpc.RpcError as error:
            self._put(error)

    def _put(self, message: bytes | Exception | None) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._received.put(message, timeout=0.5)
                return
