"""The planner: how fast it compares clusters, and whether the simulation that checks it is right.

Usage: python benchmarks/planner.py [--rounds 3] [--rows clusters,...] [--quick] [--json FILE]

clusters    how long the comparison of ten thousand clusters takes
real-jobs   real jobs on this machine, whose workers sleep, beside their simulation, which
            tests/planning/test_planned_steps.py holds the planner to

One run takes about 6 minutes, in which nothing else may run. Each line has its target, which its
median must keep; the exit code is 1 when one does not.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from data_service_parts.bench import Bench
from planner_parts.rows import many_clusters, real_jobs
from table.rows import conclude, measure, parse, parser

RESULT = Path(__file__).with_suffix(".json")
ROWS = {"clusters": many_clusters, "real-jobs": real_jobs}


def main() -> int:
    title = __doc__.split("\n")[0]
    options = parse(sys.argv[1:], parser(title, ROWS, rounds=3, result=RESULT))
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        bench = Bench(
            rounds=options.rounds, is_quick=options.quick, folder=Path(folder), peers_python=None
        )
        figures = measure(ROWS, options.rows, bench)
    return conclude(figures, options, ROWS, RESULT)


if __name__ == "__main__":
    sys.exit(main())
