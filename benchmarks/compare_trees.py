"""Compare a benchmark's figures in two trees, run by turns, as ratios of the first to the second.

Usage: python benchmarks/compare_trees.py [--rounds 7] OTHER_TREE SCRIPT [SCRIPT'S OPTIONS]

OTHER_TREE is a checkout of another revision with an environment of its own in .venv. SCRIPT, such
as import_cost.py, must write its figures with `-o json` (or `--json FILE`, as data_service.py
does). A figure is worse when its median ratio exceeds 1 by more than 3 %, and by more than the
interquartile range of the rounds' ratios; then the exit code is 1. It suits figures of which less
is better; of a rate per second, which data_service.py measures, the inverse is compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from table.turns import in_turns

HERE = Path(__file__).resolve().parent.parent
NOISE = 0.03


def figures(tree: Path, script: str, options: list[str]) -> dict[str, float]:
    """Run the script of a tree, with the tree's own interpreter; return its numbers by name."""
    command = [str(tree / ".venv/bin/python"), str(tree / "benchmarks" / script), *options]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        writes_file = script == "data_service.py"
        where = ["--json", file.name] if writes_file else ["-o", "json"]
        ran = subprocess.run([*command, *where], cwd=tree, capture_output=True, text=True)
        if ran.returncode not in (0, 1):  # 1: a target was missed
            raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr}")
        text = Path(file.name).read_text() if writes_file else ran.stdout
    return dict(numbers(json.loads(text)))


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a JSON value with its path; a list of numbers counts as its median."""
    if isinstance(value, Mapping) and isinstance(value.get("figures"), list):
        yield from measured(value["figures"])
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from numbers(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and all(isinstance(item, float) for item in value):
        yield path, statistics.median(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def measured(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Yield the times that data_service.py has measured of ours; of a rate, the seconds per GB."""
    for row in rows:
        if "ours" in row["what"] and (median := row["median"]) and row["unit"] not in ("%", "x"):
            is_rate = row["unit"].endswith("/s")
            yield row["what"], 1 / median if is_rate else median


def line(name: str, ratios: list[float]) -> tuple[str, bool]:
    """Describe a figure's ratios; return whether the median is worse than the noise allows."""
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    is_worse = median - 1 > max(NOISE, high - low)
    mark = "  WORSE" if is_worse else ""
    return f"{name:<60} {median:6.3f}x  IQR {low:.3f} to {high:.3f}{mark}", is_worse


def main() -> int:
    """Measure both trees and print each figure's ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("script")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("options", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    trees = {"ours": HERE, "other": given.other.resolve()}
    runs = in_turns(
        given.rounds,
        {n: lambda tree=t: figures(tree, given.script, given.options) for n, t in trees.items()},
    )
    worse = 0
    for name, first in runs["ours"][0].items():
        if not first or any(not run.get(name) for run in (*runs["ours"], *runs["other"])):
            continue
        pairs = zip(runs["ours"], runs["other"], strict=True)
        text, is_worse = line(name, [ours[name] / other[name] for ours, other in pairs])
        worse += is_worse
        print(text)
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
