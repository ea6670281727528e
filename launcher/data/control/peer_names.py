"""Worker names, which encode where a worker runs."""

from __future__ import annotations


def host_of(worker: str) -> str:
    """Return the host part of a worker's name: algo-1 for algo-1/0/4711."""
    return worker.partition("/")[0]


def place_of(worker: str) -> str:
    """Return the slot that a worker shares with its replacements: algo-1/0 for algo-1/0/4711."""
    return worker.rpartition("/")[0]
