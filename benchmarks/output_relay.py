"""What a rank's step takes longer when its host passes on 100,000 lines a second.

Usage: python benchmarks/output_relay.py [--rounds 15] [--rows prints,...] [--quick] [--json FILE]

prints      a rank computes and prints in each step: its host passes the lines on to its log, as the
            first process of a job's host does; beside it, the same rank prints to a file
beside      a rank that prints nothing, while another one of its host prints the lines, either way

A host is a process of its own. Two processors are needed, on which nothing else may run; a run
takes about five minutes. Where "95 %" stands, the median lies in that interval with such certainty,
by a bootstrap over all turns. Lines "(valid run)" say whether so many lines were printed at all.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from output_relay_parts.work import LINES, Measured, blocks_of_a_step
from table.figures import Figure, at_least, at_most, interval_of, ratios
from table.rows import Invalid, conclude, measure, parse, parser
from table.turns import in_turns

RESULT = Path(__file__).with_suffix(".json")
TARGET = at_most(1.02)
LINES_A_SECOND = at_least(100_000)
_HERE = Path(__file__).resolve().parent
_WAIT_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the rows share; a step hashes so many blocks."""

    rounds: int
    steps: int
    blocks: int
    folder: Path

    def run(self, output: str, lines_of: Sequence[int]) -> list[Measured]:
        """Run a host with a rank for each number of lines a step; what each measured.

        output: "passed-on" or "file". Raises Invalid where a line is missing from the host's log.
        """
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        words = [str(folder), output, str(self.steps), str(self.blocks), *map(str, lines_of)]
        with (folder / "log").open("wb") as log:
            command = [sys.executable, "-m", "output_relay_parts.host", *words]
            done = subprocess.run(
                command, cwd=_HERE, stdout=log, timeout=_WAIT_SECONDS, check=False
            )
        if done.returncode:
            raise Invalid(f"a host ended with {done.returncode}")
        reports = [folder / f"rank-{number}.json" for number in range(len(lines_of))]
        ranks = [Measured(**json.loads(report.read_text())) for report in reports]
        logged = sum(file.read_bytes().count(b"\n") for file in folder.glob("log*"))
        if logged != (printed := sum(rank.lines for rank in ranks)):
            raise Invalid(f"the ranks printed {printed} lines, and the log has {logged}")
        return ranks


class Prints:
    """The rank that is measured prints the lines."""

    @staticmethod
    def measure(bench: Bench) -> list[Figure]:
        return _figures("prints", "a rank that prints", bench, [LINES])


class Beside:
    """The rank that is measured prints nothing, and another one the lines."""

    @staticmethod
    def measure(bench: Bench) -> list[Figure]:
        return _figures("beside", "a rank beside one that prints", bench, [0, LINES])


ROWS = {"prints": Prints, "beside": Beside}


def _figures(row: str, who: str, bench: Bench, lines_of: Sequence[int]) -> list[Figure]:
    sides = in_turns(
        bench.rounds,
        {
            "passed on": lambda: bench.run("passed-on", lines_of),
            "file": lambda: bench.run("file", lines_of),
            "file again": lambda: bench.run("file", lines_of),
        },
    )
    steps = {name: [ranks[0].step for ranks in side] for name, side in sides.items()}
    cost = ratios(steps["passed on"], steps["file"])
    noise = ratios(steps["file again"], steps["file"])
    return [
        Figure(
            row=row,
            what=f"step of {who}: passed on / to a file",
            values=cost,
            target=TARGET,
            interval=interval_of(cost),
        ),
        Figure(
            row=row,
            what="the same without passing on, measured twice",
            values=noise,
            interval=interval_of(noise),
        ),
        Figure(
            row=row,
            what="step, to a file",
            values=[seconds * 1e3 for seconds in steps["file"]],
            unit="ms",
        ),
        Figure(
            row=row,
            what="lines passed on (valid run)",
            values=[ranks[-1].lines_a_second for ranks in sides["passed on"]],
            unit="/s",
            target=LINES_A_SECOND,
        ),
    ]


def main() -> int:
    title = __doc__.split("\n")[0]
    options = parse(sys.argv[1:], parser(title, ROWS, rounds=15, result=RESULT))
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        bench = Bench(
            rounds=options.rounds,
            steps=30 if options.quick else 300,
            blocks=blocks_of_a_step(),
            folder=Path(folder),
        )
        figures = measure(ROWS, options.rows, bench)
    return conclude(figures, options, ROWS, RESULT)


if __name__ == "__main__":
    sys.exit(main())
