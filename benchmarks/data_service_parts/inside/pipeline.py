"""The datasets that data hosts serve in the benchmark's jobs; how is said by BENCH_* variables."""

import os
import time
from pathlib import Path

import numpy as np
import payload
import variables

#: Samples of the datasets: more than any row reads.
LENGTH = 2_000_000


class Ready:
    """Whole batches that are in memory already: nothing but transport is left to do.

    seconds: to sleep before each, where they are not to come as fast as they can.
    """

    def __init__(self, seconds):
        self._batches = payload.read(Path(os.environ[variables.PAYLOAD]))
        self._seconds = seconds

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        if self._seconds:
            time.sleep(self._seconds)
        return self._batches[index % len(self._batches)]


class Working:
    """Samples of a few bytes that take a while: `work` is called for each."""

    def __init__(self, work):
        self._work = work
        self._bytes = int(os.environ[variables.SAMPLE_BYTES])

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        self._work()
        return np.full(self._bytes, index % 251, np.uint8), index


class Sleeping(Working):
    """Such samples, whose work is to sleep: once for a whole batch.

    Waking up for each would cost this machine more than the data service does.
    """

    def __init__(self, seconds):
        super().__init__(lambda: None)
        self._seconds = seconds

    def __getitems__(self, indices):
        time.sleep(len(indices) * self._seconds)
        return [self[index] for index in indices]


class Skewed(Sleeping):
    """Such samples, of which some take far longer: log-normal, by their index."""

    def __init__(self, seconds, variation):
        super().__init__(seconds)
        self._factors = payload.long_tail(variation)

    def __getitems__(self, indices):
        factors = sum(self._factors[index % len(self._factors)] for index in indices)
        time.sleep(factors * self._seconds)
        return [self[index] for index in indices]


def burn(rounds):
    """Arithmetic that holds the interpreter."""
    total = 0
    for number in range(rounds):
        total += number
    return total


def ready():
    return Ready(float(os.environ.get(variables.SLEEP, 0)))


def sleeping():
    return Sleeping(float(os.environ[variables.SLEEP]))


def skewed():
    return Skewed(float(os.environ[variables.SLEEP]), float(os.environ[variables.VARIATION]))


def burning():
    rounds = int(os.environ[variables.BURN])
    return Working(lambda: burn(rounds))
