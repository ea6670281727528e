"""Data host: prepares batches of the images of its share, and serves them to whoever connects.

message = header bytes (u32)  payload bytes (u32)  header (JSON)  payload; all 0: no more
"""

import argparse
import json
import queue
import socket
import struct
import threading
from pathlib import Path

IMAGES = Path("/opt/ml/input/data/images")
FEED_PORT = 6000
SHUTDOWN_PORT = 16000
SIZES = struct.Struct("!II")


def prepare(files):
    """One batch: the negatives of some images."""
    header = json.dumps([file.name for file in files]).encode()
    payload = b"".join(bytes(255 - pixel for pixel in file.read_bytes()) for file in files)
    return SIZES.pack(len(header), len(payload)) + header + payload


def fill(batches, files, size):
    for start in range(0, len(files), size):
        batches.put(prepare(files[start : start + size]))
    batches.put(None)


def feed(client, batches):
    """Whoever asks first gets a batch; every client hears of the end."""
    with client:
        while (batch := batches.get()) is not None:
            client.sendall(batch)
        batches.put(None)
        client.sendall(SIZES.pack(0, 0))


def serve(server, batches, feeds):
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return  # closed
        feeds.append(threading.Thread(target=feed, args=(client, batches)))
        feeds[-1].start()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--share", required=True, help="which of how many: 0/2")
    parser.add_argument("--shutdowns", type=int, required=True, help="connections to wait for")
    arguments = parser.parse_args()
    first, step = map(int, arguments.share.split("/"))
    files = sorted(IMAGES.iterdir())[first::step]

    batches, feeds = queue.Queue(maxsize=32), []
    fill_arguments = (batches, files, arguments.batch_size)
    threading.Thread(target=fill, args=fill_arguments, daemon=True).start()
    with socket.create_server(("", FEED_PORT)) as server:
        threading.Thread(target=serve, args=(server, batches, feeds), daemon=True).start()
        print(f"serving {len(files)} images on port {FEED_PORT}", flush=True)
        with socket.create_server(("", SHUTDOWN_PORT)) as shutdown:
            for _ in range(arguments.shutdowns):
                shutdown.accept()[0].close()
    for each in feeds:
        each.join()
    print(f"shut down after {len(feeds)} clients", flush=True)


if __name__ == "__main__":
    main()
