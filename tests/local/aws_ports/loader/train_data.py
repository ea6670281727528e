"""The data host: batches over gRPC on one port, until somebody connects to the shutdown port."""

import argparse
import json
import random
import socket
from concurrent import futures

import grpc
from start import FEED_PORT, SHUTDOWN_PORT


class Batches(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_stream_rpc_method_handler(self.read)

    def read(self, request, context):
        numbers = random.Random(7)
        for _ in range(int(request)):
            xs = [numbers.uniform(-1, 1) for _ in range(8)]
            yield json.dumps([xs, [3 * x + 1 for x in xs]]).encode()


def wait_for_shutdown() -> None:
    with socket.create_server(("", SHUTDOWN_PORT)) as listener:
        connection, _ = listener.accept()
        connection.close()
    print("shutdown signal received", flush=True)


def main() -> None:
    argparse.ArgumentParser().parse_known_args()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Batches(),))
    server.add_insecure_port(f"0.0.0.0:{FEED_PORT}")
    server.start()
    print("serving", flush=True)
    wait_for_shutdown()
    server.stop(grace=1).wait()


if __name__ == "__main__":
    main()
