"""The data host: one process fills a queue, a gRPC server streams it, until the shutdown port."""

import argparse
import json
import logging
import multiprocessing as mp
import os
import random
import socket
import sys
from concurrent import futures
from queue import Full

import grpc

logger = logging.getLogger(__name__)
logger.setLevel(logging.DEBUG)
logger.addHandler(logging.StreamHandler(sys.stdout))

FEED_PORT = 6000
SHUTDOWN_PORT = 16000


class Feed(grpc.GenericRpcHandler):
    def __init__(self, q):
        self.q = q

    def service(self, details):
        return grpc.unary_stream_rpc_method_handler(self.get_examples)

    def get_examples(self, request, context):
        while context.is_active():
            yield self.q.get()


def fill_queue(q, kill_event, batch_size):
    numbers = random.Random(7)
    while not kill_event.is_set():
        xs = [numbers.uniform(-1, 1) for _ in range(batch_size)]
        batch = json.dumps([xs, [3 * x + 1 for x in xs]]).encode()
        while not kill_event.is_set():
            try:
                q.put(batch, timeout=1)
                break
            except Full:
                continue


def wait_for_shutdown_signal():
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.bind(("", SHUTDOWN_PORT))
    s.listen(1)
    logger.info("Awaiting shutdown signal on port %s", SHUTDOWN_PORT)
    conn, addr = s.accept()
    print("Received shutdown signal", flush=True)
    conn.close()
    s.close()


def serve(args):
    q, kill_event = mp.Queue(maxsize=32), mp.Event()
    filler = mp.Process(target=fill_queue, args=(q, kill_event, args.batch_size))
    filler.start()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=args.grpc_workers))
    server.add_generic_rpc_handlers((Feed(q),))
    server.add_insecure_port(f"[::]:{FEED_PORT}")
    server.start()
    wait_for_shutdown_signal()
    kill_event.set()
    server.stop(2).wait()
    filler.join(1)
    filler.terminate()
    os.system("kill -9 %d" % os.getpid())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--grpc_workers", type=int, default=1)
    serve(parser.parse_known_args()[0])
