"""Samples that cost CPU time, read from a storage if the job has one."""

import http.client
import os
import random

import numpy as np
from work import SETTINGS, burn


class Samples:
    """dear_rank: prepares its samples for longer, as if its shard had the long ones."""

    def __init__(self) -> None:
        self._storage: http.client.HTTPConnection | None = None

    def __len__(self) -> int:
        return int(SETTINGS["length"])

    def __getitem__(self, index: int):
        draw = random.Random(SETTINGS["seed"] + index).uniform(-1, 1)
        seconds = SETTINGS["sample_cpu"] * (1 + SETTINGS["spread"] * draw)
        if int(os.environ.get("RANK", -1)) == SETTINGS["dear_rank"]:
            seconds += SETTINGS["dear_cpu"]
        if SETTINGS["storage"]:
            self._read()
        burn(seconds)
        return np.full(SETTINGS["numbers"], index % 7, np.float32), np.float32(index % 2)

    def _read(self) -> None:
        if self._storage is None:
            self._storage = http.client.HTTPConnection(SETTINGS["storage"])
        self._storage.request("GET", "/sample")
        self._storage.getresponse().read()


def train_set() -> Samples:
    return Samples()
