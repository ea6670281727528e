"""Launcher's engine beside tf.data service, Ray Data and torch's DataLoader, on the same samples.

Usage: python benchmarks/engines.py [--rounds 5] [--rows images,...] [--quick]
           [--peers-python PYTHON | --no-peers] [--json FILE]

One run measures all engines in turn. TensorFlow and Ray are in an environment of their own,
`.venv-engines`, which the first run creates (pyproject.toml, `[tool.libraries]`), unless
--peers-python names an interpreter that has them. The exit code is 1 if a line misses its target.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from data_service_parts.bench import Bench
from data_service_parts.harness import Harness
from engines_parts.rows import images, linear, scaling, tokens
from table.rows import conclude, measure, parse, parser

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import library_run

RESULT = Path(__file__).with_suffix(".json")
ROWS = {"images": images, "tokens": tokens, "scaling": scaling, "linear": linear}
#: The share of a processor that engines may use between windows: a cluster of Ray is never idle.
_IDLE = 0.5


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # sides are ended on the way out
    options = read_options(sys.argv[1:])
    peers = options.peers_python
    if peers is None and not options.no_peers and set(options.rows) - {"linear"}:
        peers = str(library_run.environment("engines", library_run.libraries()["engines"]))
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        bench = Bench(
            rounds=options.rounds,
            is_quick=options.quick,
            folder=Path(folder),
            peers_python=peers,
            harness=Harness(_IDLE),
        )
        figures = measure(ROWS, options.rows, bench)
    return conclude(figures, options, ROWS, RESULT)


def read_options(words: list[str]) -> argparse.Namespace:
    made = parser(__doc__.split("\n")[0], ROWS, rounds=5, result=RESULT)
    made.add_argument("--peers-python", help="an interpreter with TensorFlow, Ray and torch")
    made.add_argument("--no-peers", action="store_true", help="measure ours alone")
    return parse(words, made)


if __name__ == "__main__":
    sys.exit(main())
