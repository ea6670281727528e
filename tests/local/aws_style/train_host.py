"""Train host: reads prepared batches from every data host, and "trains" by counting them."""

import argparse
import json
import queue
import socket
import struct
import threading
import time
from pathlib import Path

MODEL = Path("/opt/ml/model")
CONFIG = Path("/opt/ml/input/config/resourceconfig.json")
FEED_PORT = 6000
SIZES = struct.Struct("!II")
PATIENCE = 120.0


class RemoteBatches:
    """An iterable over the batches of all data hosts, in the order in which they come."""

    def __init__(self, hosts):
        self.hosts = hosts

    def __iter__(self):
        arrived = queue.Queue(maxsize=8)
        for host in self.hosts:
            threading.Thread(target=self._read, args=(host, arrived), daemon=True).start()
        waiting = len(self.hosts)
        while waiting:
            batch = arrived.get()
            if isinstance(batch, Exception):
                raise batch
            if batch is None:
                waiting -= 1
            else:
                yield batch

    def _read(self, host, arrived):
        try:
            with connect(host) as connection, connection.makefile("rb") as stream:
                while True:
                    header_size, payload_size = SIZES.unpack(stream.read(SIZES.size))
                    if header_size == 0:
                        break
                    names = json.loads(stream.read(header_size))
                    arrived.put((host, names, stream.read(payload_size)))
            arrived.put(None)
        except (OSError, ValueError, struct.error) as error:
            arrived.put(error)


def connect(host):
    """Data hosts may start later than this one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((host, FEED_PORT), timeout=PATIENCE)
        except OSError:  # noqa: PERF203 - each attempt may fail on its own
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-hosts", nargs="+", required=True)
    arguments = parser.parse_args()
    interface = json.loads(CONFIG.read_text())["network_interface_name"]
    batches, images, light = {}, [], 0
    for host, names, payload in RemoteBatches(arguments.data_hosts):
        batches[host] = batches.get(host, 0) + 1
        images += names
        light += sum(payload)
    result = {"interface": interface, "batches": batches, "images": images, "light": light}
    (MODEL / f"{socket.gethostname()}.json").write_text(json.dumps(result))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
