"""Whether models are cut well: what is predicted of cuts, and what they take when they are run.

Usage: python benchmarks/partition.py [--rounds 3] [--rows ranking,...] [--quick] [--json FILE]

ranking     a chain of modules that sleep, under two schedules: do 20 random cuts take as long as
            predicted, are they in that order, and are the chosen cuts as fast as the best; and
            what the formula says that chooses them
baselines   four models, cut for speed, and by rules that measure nothing: which is faster
memory      a model that is cut for memory lives under a limit where the one cut for speed dies,
            and is slower where both live
predicted   six models of three kinds, AdamW and SGD: the step, and the memory of each stage, of the
            median of five jobs, beside what was predicted before
optimum     a thousand modules are cut into sixteen stages: how long that takes

One run takes about 16 minutes on two processors, `--rows predicted` 7 of them; nothing else may run
on them. Each line has its target, which its median must keep; the exit code is 1 when one does not.
Where "95 %" stands, the median lies in that interval with such certainty, by a bootstrap over all
turns. Lines "(valid run)" say whether the comparison is one at all: where one of these fails, the
run is invalid.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from partition_parts.rows import baselines, memory, optimum, predicted_jobs, ranking
from table.rows import conclude, measure, parse, parser
from trainers_parts.bench import Bench

RESULT = Path(__file__).with_suffix(".json")
ROWS = {
    "ranking": ranking,
    "baselines": baselines,
    "memory": memory,
    "predicted": predicted_jobs,
    "optimum": optimum,
}


def main() -> int:
    title = __doc__.split("\n")[0]
    options = parse(sys.argv[1:], parser(title, ROWS, rounds=3, result=RESULT))
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        bench = Bench(
            rounds=options.rounds,
            is_quick=options.quick,
            folder=Path(folder),
            package="partition_parts.inside",
        )
        figures = measure(ROWS, options.rows, bench)
    return conclude(figures, options, ROWS, RESULT)


if __name__ == "__main__":
    sys.exit(main())
