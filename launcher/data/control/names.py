"""The names of workers, which say where they run."""

from __future__ import annotations


def host_of(worker: str) -> str:
    """The host of a worker, with which its name begins: algo-1/0/4711."""
    return worker.partition("/")[0]


def place_of(worker: str) -> str:
    """Where a worker and those that replace it run: algo-1/0."""
    return worker.rpartition("/")[0]
