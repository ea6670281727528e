"""What training in parallel costs beyond the work itself: overhead, idle stages, efficiency.

Usage: python benchmarks/trainers.py [--rounds 3] [--rows overhead,...] [--quick] [--json FILE]

One run takes about 8 minutes on two processors. Each line has its target, which its median must
keep; the exit code is 1 when one does not. Where "95 %" stands, the median lies in that interval
with such certainty, by a bootstrap over all pairs: an interval on both sides of the target leaves
the verdict open, and more rounds make it smaller.
Lines "(valid run)" say whether the comparison is one at all: where one of these fails, the run is
invalid.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from table.rows import conclude, measure, parse, parser
from trainers_parts.bench import Bench
from trainers_parts.rows import bubble, efficiency, overhead, step

RESULT = Path(__file__).with_suffix(".json")
ROWS = {"overhead": overhead, "bubble": bubble, "efficiency": efficiency, "step": step}


def main() -> int:
    title = __doc__.split("\n")[0]
    options = parse(sys.argv[1:], parser(title, ROWS, rounds=3, result=RESULT))
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        bench = Bench(rounds=options.rounds, is_quick=options.quick, folder=Path(folder))
        figures = measure(ROWS, options.rows, bench)
    return conclude(figures, options, ROWS, RESULT)


if __name__ == "__main__":
    sys.exit(main())
