"""How fast the peers should be beside raw TCP, so that none is slow only because of us.

From measurements of all of them on one machine with two cores, over the loopback interface: GB/s
of raw TCP into a reused buffer, of tf.data service 2.21 without compression, of a gRPC stream in
Python, of AWS's pattern, and of torch's DataLoader with one worker.
"""

from __future__ import annotations

_RAW = {"4 MB": 4.6, "38 MB": 2.1, "64 MB": 2.6}
_PEERS = {
    "tf.data": {"4 MB": 1.04, "38 MB": 0.36, "64 MB": 0.27},
    "gRPC": {"4 MB": 1.1, "38 MB": 0.14, "64 MB": 0.16},
    "AWS": {"4 MB": 0.52, "38 MB": 0.08, "64 MB": 0.11},
    "torch": {"38 MB": 0.45},
}
_SLACK = 0.7


def peers(size: str) -> list[str]:
    """The peers that were measured at a size."""
    return [name for name, rates in _PEERS.items() if size in rates]


def least_ratio(peer: str, size: str) -> float:
    """Below this ratio to raw TCP a peer is set up worse than it can be."""
    return round(_SLACK * _PEERS[peer][size] / _RAW[size], 4)
