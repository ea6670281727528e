"""Serves prepared batches over gRPC until SIGTERM: the command of the server group."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

import grpc
import numpy as np
from dataset import length, prepare
from protocol import LENGTH, OPTIONS, PORT, STREAM, Share, Total, encode

#: Streams at a time: two (training, evaluation) for each of so many ranks, at most.
STREAMS = 128
#: Seconds between two looks at the worker processes while a batch is awaited.
LOOK = 1.0
#: Seconds that streams have to come to their end after SIGTERM.
GRACE = 10.0


class Batches:
    """The two methods of the service; a pool prepares, gRPC's threads send."""

    def __init__(self, pool: Executor, ahead: int) -> None:
        self._pool = pool
        self._ahead = ahead
        self._workers: set[multiprocessing.process.BaseProcess] = set()

    def length(self, split: bytes, context: grpc.ServicerContext) -> bytes:
        with errors_told(context):
            return str(self._length(split.decode())).encode()

    def stream(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """The announced total, and then every batch of a share.

        gRPC takes the next batch when the loader has room for it, and no more than `ahead` are
        prepared before: a slow trainer holds the server back instead of filling its memory.
        """
        with errors_told(context):
            share = Share.from_bytes(request)
            batches = list(share.batches(self._length(share.split)))
            yield Total(batches=len(batches), samples=sum(map(len, batches))).to_bytes()
            waiting = iter(batches)
            prepared = deque(self._submit(share, ids) for ids in islice(waiting, self._ahead))
            while prepared and context.is_active():
                yield self._result(prepared.popleft())
                prepared.extend(self._submit(share, ids) for ids in islice(waiting, 1))

    def _length(self, split: str) -> int:
        return self._pool.submit(length, split).result()

    def _submit(self, share: Share, ids: np.ndarray) -> Future[bytes]:
        future = self._pool.submit(prepare_encoded, share.split, ids, share.seed, share.epoch)
        self._workers.update(multiprocessing.active_children())
        return future

    def _result(self, future: Future[bytes]) -> bytes:
        """Wait for a batch; raises BrokenProcessPool when a worker process has died.

        The pool itself waits forever for the rest of a batch whose worker died while it sent it.
        """
        while not wait([future], LOOK).done:
            if not self._workers.issubset(multiprocessing.active_children()):
                raise BrokenProcessPool("a worker process has died")
        return future.result()


def start_workers(count: int) -> ProcessPoolExecutor:
    """Return when the first worker process can prepare."""
    # Not by fork: a fork of a process that has gRPC's threads may hang.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, spawn, initializer=leave_sigterm_to_the_server)
    pool.submit(length, "train").result()
    return pool


def prepare_encoded(split: str, ids: np.ndarray, seed: int, epoch: int) -> bytes:
    return encode(prepare(split, ids, seed, epoch))


def leave_sigterm_to_the_server() -> None:
    """A worker process ends with the pool; SIGTERM comes to every process of the program."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def errors_told(context: grpc.ServicerContext) -> Iterator[None]:
    """An exception of the dataset ends the stream with its traceback; 2,000 characters fit."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the loader should hear of it
        trace = str(error.__cause__ or traceback.format_exc())  # the cause: that of the worker
        context.abort(grpc.StatusCode.INTERNAL, f"{error!r}\n{trace[-2000:]}")


def start(batches: Batches, address: str) -> grpc.Server:
    """Listen; raises RuntimeError when the address is taken."""
    # Two servers on one address would share its connections, which nobody wants here.
    options = [("grpc.so_reuseport", 0), *OPTIONS]
    server = grpc.server(ThreadPoolExecutor(STREAMS), options=options)
    methods = {
        LENGTH: grpc.unary_unary_rpc_method_handler(batches.length),
        STREAM: grpc.unary_stream_rpc_method_handler(batches.stream),
    }
    handlers = {path.rpartition("/")[2]: handler for path, handler in methods.items()}
    service = LENGTH.split("/")[1]
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    server.add_insecure_port(address)
    server.start()
    return server


def main(args: argparse.Namespace) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    pool = start_workers(args.workers)
    server = start(Batches(pool, args.ahead), f"{args.host}:{args.port}")
    print(f"serving on {args.host}:{args.port} with {args.workers} workers", flush=True)
    stop.wait()
    server.stop(GRACE).wait()
    pool.shutdown(cancel_futures=True)
    print("closed", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    # Local hosts share one network stack, so each binds its own address; elsewhere it is 0.0.0.0.
    parser.add_argument("--host", default=os.environ.get("LAUNCHER_HOST_ADDRESS", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--workers", type=int, default=int(os.environ.get("SM_NUM_CPUS", "1")))
    parser.add_argument("--ahead", type=int, default=4, help="batches prepared ahead, per stream")
    main(parser.parse_args())
