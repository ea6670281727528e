"""Benchmark of the data service against raw TCP, its targets and other systems.

Usage: python benchmarks/data_service.py [--rounds 5] [--rows transfer,...] [--quick]
           [--peers-python PYTHON | --no-peers] [--json FILE]

One run measures all sides in turn and takes about half an hour. The exit code is 1 if a line misses
its target. TensorFlow, gRPC and protobuf are in a separate environment, which the first run creates
below ~/.cache/launcher (1.7 GB, the extra `bench`), unless --peers-python names an interpreter that
has them. Lines "(valid run)" compare a peer with its known rate: if one fails, the run is invalid.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from data_service_parts import environment
from data_service_parts.bench import Bench
from data_service_parts.rows import (
    cut_link,
    dispatcher,
    faults,
    main_loop,
    memory,
    preprocessing,
    published,
    scaling,
    start,
    transfer,
)
from table.rows import conclude, measure, parse, parser

RESULT = Path(__file__).with_suffix(".json")
ROWS = {
    "transfer": transfer,
    "main-loop": main_loop,
    "preprocessing": preprocessing,
    "scaling": scaling,
    "dispatcher": dispatcher,
    "faults": faults,
    "cut-link": cut_link,
    "start": start,
    "memory": memory,
    "published": published,
}


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # sides are ended on the way out
    options = read_options(sys.argv[1:])
    peers = options.peers_python
    if peers is None and "transfer" in options.rows and not (options.no_peers or options.quick):
        peers = environment.peers_python()
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        bench = Bench(
            rounds=options.rounds,
            is_quick=options.quick,
            folder=Path(folder),
            peers_python=peers,
        )
        figures = measure(ROWS, options.rows, bench)
    return conclude(figures, options, ROWS, RESULT)


def read_options(words: list[str]) -> argparse.Namespace:
    made = parser(__doc__.split("\n")[0], ROWS, rounds=5, result=RESULT)
    made.add_argument("--peers-python", help="an interpreter that has the extra `bench`")
    made.add_argument("--no-peers", action="store_true", help="measure ours and raw TCP alone")
    return parse(words, made)


if __name__ == "__main__":
    sys.exit(main())
