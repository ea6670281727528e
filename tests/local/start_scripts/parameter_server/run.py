"""A parameter server with sockets of its own, and workers that push gradients to it."""

import argparse
import json
import os
import pickle
import socket
import struct
import threading
import time

import numpy as np

PORT = 2222


def send(connection, value):
    packed = pickle.dumps(value)
    connection.sendall(struct.pack("!I", len(packed)) + packed)


def receive_bytes(connection, count):
    received = b""
    while len(received) < count:
        chunk = connection.recv(count - len(received))
        if not chunk:
            raise EOFError
        received += chunk
    return received


def receive(connection):
    (length,) = struct.unpack("!I", receive_bytes(connection, 4))
    return pickle.loads(receive_bytes(connection, length))


def serve(workers, lr):
    weights, lock = np.zeros(3), threading.Lock()

    def serve_worker(connection):
        try:
            while True:
                gradient = receive(connection)
                with lock:
                    if gradient is not None:
                        np.subtract(weights, lr * gradient, out=weights)
                    send(connection, weights.copy())
        except EOFError:
            pass

    with socket.create_server(("0.0.0.0", PORT)) as server:
        threads = []
        for _ in workers:
            thread = threading.Thread(target=serve_worker, args=(server.accept()[0],))
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()
    print("weights", np.round(weights, 2), flush=True)


def work(server, seed, steps):
    while True:
        try:
            connection = socket.create_connection((server, PORT))
            break
        except OSError:
            time.sleep(0.2)
    numbers = np.random.default_rng(seed)
    send(connection, None)
    weights = receive(connection)
    for _ in range(steps):
        x = numbers.normal(size=(8, 3))
        send(connection, x.T @ (x @ weights - x @ np.array([1.0, 2.0, 3.0])) / 8)
        weights = receive(connection)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--lr", type=float)
args = parser.parse_args()
with open(os.path.join(os.environ["SM_INPUT_CONFIG_DIR"], "resourceconfig.json")) as file:
    config = json.load(file)
groups = {group["instance_group_name"]: group["hosts"] for group in config["instance_groups"]}
me = os.environ["SM_CURRENT_HOST"]
if me in groups["servers"]:
    serve(groups["workers"], args.lr)
else:
    work(groups["servers"][0], groups["workers"].index(me), args.steps)
