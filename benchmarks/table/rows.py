"""The rows of a benchmark: which of them a command line asks for, and one after the other."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from table import report
from table.figures import Figure

#: By name, modules with `measure(bench) -> figures`.
Rows = Mapping[str, Any]


class Invalid(Exception):
    """What was to be measured did not come up, ended, or was wrong: there is nothing to compare."""


def parser(description: str, rows: Rows, *, rounds: int, result: Path) -> argparse.ArgumentParser:
    """The options that every benchmark with rows has."""

    def known(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(rows):
            raise argparse.ArgumentTypeError(f"no row is called {', '.join(sorted(unknown))}")
        return names

    made = argparse.ArgumentParser(description=description)
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--rows", type=known, default=list(rows), help=", ".join(rows))
    made.add_argument("--quick", action="store_true", help="only to see that it works")
    made.add_argument("--json", type=Path, help=f"where all values go; of whole runs {result}")
    return made


def parse(words: Sequence[str], made: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the options of a benchmark's parser; a quick run has one round."""
    options = made.parse_args(words)
    if options.quick:
        options.rounds = 1
    return options


def measure(rows: Rows, names: Sequence[str], bench: Any) -> list[Figure]:
    """All figures of some rows, each printed as soon as it is there."""
    figures = []
    for name in names:
        print(f"== {name}", file=sys.stderr, flush=True)
        try:
            for figure in rows[name].measure(bench):
                print(figure, flush=True)
                figures.append(figure)
        except Invalid as error:
            print(f"{name}: {error}", file=sys.stderr)
            figures.append(Figure(row=name, what="the row did not end", values=[], note=str(error)))
    return figures


def conclude(
    figures: Sequence[Figure], options: argparse.Namespace, rows: Rows, result: Path
) -> int:
    """Print the verdict and write the values; the exit code, 1 when a target was missed."""
    print(report.verdict(figures))
    is_whole = options.rows == list(rows) and not options.quick
    if file := options.json or (result if is_whole else None):
        file.write_text(report.to_json(figures, options.rounds))
    return 0 if report.is_good(figures) else 1
