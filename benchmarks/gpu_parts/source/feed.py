"""Steps of a convolutional network on the GPU, fed in three ways; and reading without steps.

resident    one batch that is in the GPU's memory
served      the data service, page-locked batches
raw         a socket that another process fills with the same bytes, read by a thread into three
            page-locked buffers: nothing but the bytes, in no order and without labels
"""

import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch
from images import SHAPE
from network import cuda, model, train

from launcher.data import DataLoader

told = json.loads(Path("settings.json").read_text())
batch_size = told["batch_size"]
_SENDER = """\
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
batch = bytes(int(sys.argv[1]))
while True:
    connection.sendall(batch)
"""


def main():
    sides = {"resident": _resident(), "served": _served(), "raw": _raw()}
    network = model(told["widths"])
    steps = {name: [] for name in sides}
    rates = {name: [] for name in sides if name != "resident"}
    for batches in sides.values():
        train(network, batches, told["warm"])
    for number in range(told["rounds"]):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            _wait_until_full()
            steps[name].append(train(network, sides[name], told["steps"]))
    for number in range(told["rounds"]):
        for name in list(rates)[:: -1 if number % 2 else 1]:
            rates[name].append(_read(sides[name], told["reads"]))
    result = {"steps": steps, "rates": rates}
    Path(os.environ["SM_MODEL_DIR"], "result.json").write_text(json.dumps(result))
    os._exit(0)  # the sender and its thread are still at work


def _resident():
    return itertools.repeat(torch.zeros(batch_size, *SHAPE, dtype=torch.uint8, device=cuda))


def _served():
    loader = DataLoader("images:dataset", batch_size, shuffle=True, pin_memory=True, epochs=1)
    for images, _ in loader:
        yield images


def _raw():
    size = torch.Size((batch_size, *SHAPE)).numel()
    command = [sys.executable, "-c", _SENDER, str(size)]
    sender = subprocess.Popen(command, stdout=subprocess.PIPE)
    connection = socket.create_connection(("127.0.0.1", int(sender.stdout.readline())))
    free, full = queue.Queue(), queue.Queue()
    for _ in range(3):
        free.put(torch.empty(batch_size, *SHAPE, dtype=torch.uint8).pin_memory())

    def receive():
        while True:
            buffer = free.get()
            room = memoryview(buffer.numpy()).cast("B")
            while room:
                room = room[connection.recv_into(room) :]
            full.put(buffer)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        buffer = full.get()
        yield buffer
        copied = torch.cuda.Event()
        copied.record()
        copied.synchronize()
        free.put(buffer)


def _wait_until_full():
    time.sleep(told["pause"])


def _read(batches, count):
    """Return bytes per second, copies to the GPU included."""
    for _ in range(told["buffered"]):
        next(batches)
    began, received = time.perf_counter(), 0
    for _ in range(count):
        batch = next(batches)
        batch.to(cuda, non_blocking=True)
        received += batch.nbytes
    torch.cuda.synchronize()
    return received / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
