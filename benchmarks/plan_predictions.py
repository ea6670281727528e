"""Predicted steps beside real ones on this machine: `step_model` itself, before the runs.

Usage: python benchmarks/plan_predictions.py
       python benchmarks/plan_predictions.py predict
       git add benchmarks/plan_predictions.json && git commit
       python benchmarks/plan_predictions.py run [--rounds 2] [--rows tokens,linked,...]

shared      four workloads with 0 to 3 workers, which share two cores with the rank
apart       the same, the train host on the first core and a data host on the second
linked      two to four ranks with a network each, over links that tbf limits; gloo sums gradients

`predict` measures the parts of each workload, and writes what the planner says of each row. `run`
reads that file, which must be committed, runs the rows in turns, and prints them. Without a word,
one is done after the other, and the file is not committed between them.

A row counts if its quartiles lie within 10 % of its median; others are run once again, and then
listed apart. Of 30 rows or more that count, 90 % must be within 10 % of the prediction, and none
off by more than 20 % and twice the distance between its quartiles. Nothing else may run: 5 minutes
for `predict` and 14 for `run`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from planner_parts.predicted_workloads import (
    LINKED,
    WORKLOADS,
    linked_prediction,
    median_parts,
    predictions,
)
from planner_parts.timed_jobs import measure_parts, run_job, run_linked
from table.turns import in_turns

PREDICTIONS = Path(__file__).with_suffix(".json")
_MOST_WORKERS = 3
_STEADY, _NEAR, _FAR, _SHARE, _FEWEST = 0.10, 0.10, 0.20, 0.9, 30
#: Seconds of the timed steps of a run, about; parts of it are timed, or steps over links.
_SECONDS = 6.0
_PARTS = 6
_PROFILES = 3
_LINKED_STEPS = 3, 12

Run = Callable[[], Sequence[float]]


def main() -> int:
    options = _parse(sys.argv[1:])
    began, code = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        if options.what != "run":
            _predict(options, Path(folder))
        if options.what != "predict":
            code = _run(options, Path(folder))
    print(f"{time.monotonic() - began:.0f} s in all")
    return code


def _predict(options: argparse.Namespace, folder: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    chosen = [each for each in WORKLOADS if each.name in options.rows]
    found = in_turns(
        options.profiles,
        {each.name: functools.partial(measure_parts, each, folder) for each in chosen},
    )
    parts = {each.name: median_parts(found[each.name]) for each in chosen}
    rows = {
        f"{each.name} {place}": seconds
        for each in chosen
        for place, seconds in predictions(each, parts[each.name], cores, _MOST_WORKERS)
    }
    alone = {}
    for each in LINKED if "linked" in options.rows else ():
        alone[each.name] = statistics.median(run_linked(each, steps=8, ranks=1))
        rows[each.name] = linked_prediction(each, alone[each.name])
    for name, seconds in rows.items():
        print(f"{name:<34} {1000 * seconds:8.1f} ms", flush=True)
    plain = {"cores": cores, "parts": {name: asdict(each) for name, each in parts.items()}}
    file = {**plain, "alone": alone, "step_seconds": rows}
    options.file.write_text(json.dumps(file, indent=1) + "\n")


def _run(options: argparse.Namespace, folder: Path) -> int:
    if options.what == "run" and not options.uncommitted and not _is_committed(options.file):
        print(f"{options.file} is not committed: predictions come before the runs", file=sys.stderr)
        return 2
    predicted = json.loads(options.file.read_text())["step_seconds"]
    runs = _runs(options, predicted, folder)
    found = {
        name: list(chain.from_iterable(parts))
        for name, parts in in_turns(options.rounds, runs).items()
    }
    again = {name: runs[name] for name, values in found.items() if not _is_steady(values)}
    for name, values in in_turns(options.rounds, again).items():
        found[name] = list(chain.from_iterable(values))
    apart = [name for name, values in found.items() if not _is_steady(values)]
    near = far = 0
    for name, values in found.items():
        if name not in apart:
            is_near, is_far = _row(name, predicted[name], values)
            near, far = near + is_near, far + is_far
    if apart:
        print(f"not steady, in two runs of {options.rounds} rounds:")
    for name in apart:
        _row(name, predicted[name], found[name])
    count = len(found) - len(apart)
    print(f"{near} of {count} within {_NEAR:.0%}, {far} too far off; {len(apart)} not steady")
    return 0 if count >= _FEWEST and near >= _SHARE * count and not far else 1


def _runs(options: argparse.Namespace, predicted: dict[str, float], folder: Path) -> dict[str, Run]:
    found: dict[str, Run] = {}
    for each in WORKLOADS:
        for place in (f"{kind} {n}" for kind in ("shared", "apart") for n in _COUNTS):
            name = f"{each.name} {place}"
            if each.name in options.rows and name in predicted:
                steps = max(4, round(options.seconds / _PARTS / predicted[name]))
                warm = max(16, steps)
                found[name] = lambda each=each, place=place, steps=steps, warm=warm: run_job(
                    each, folder, place, warm=warm, steps=steps
                )["seconds"]
    for linked in LINKED if "linked" in options.rows else ():
        least, most = _LINKED_STEPS
        steps = round(min(most, max(least, options.seconds / predicted[linked.name])))
        found[linked.name] = functools.partial(run_linked, linked, steps=steps)
    return found


_COUNTS = range(_MOST_WORKERS + 1)


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _is_steady(values: Sequence[float]) -> bool:
    low, middle, high = _quartiles(values)
    return max(middle - low, high - middle) <= _STEADY * middle


def _row(name: str, predicted: float, values: Sequence[float]) -> tuple[bool, bool]:
    """Print a row; return whether it is within _NEAR, and whether it is too far off."""
    low, measured, high = _quartiles(values)
    error = predicted / measured - 1
    is_far = abs(error) > _FAR + 2 * (high - low) / measured
    print(
        f"{name:<34} predicted {1000 * predicted:8.1f} ms  measured {1000 * measured:8.1f} "
        f"({1000 * low:.1f} to {1000 * high:.1f})  {error:+6.1%}"
        f"{'  FAR' if is_far else '  WRONG' if abs(error) > _NEAR else ''}",
        flush=True,
    )
    return abs(error) <= _NEAR, is_far


def _is_committed(file: Path) -> bool:
    command = ["git", "-C", str(file.parent), "status", "--porcelain", "--", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return file.exists() and not done.stdout.strip()


def _parse(words: list[str]) -> argparse.Namespace:
    names = [*(each.name for each in WORKLOADS), "linked"]
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("what", nargs="?", default="all", choices=["all", "predict", "run"])
    made.add_argument("--rounds", type=int, default=2)
    made.add_argument("--profiles", type=int, default=_PROFILES)
    made.add_argument("--rows", type=lambda text: text.split(","), default=names)
    made.add_argument("--seconds", type=float, default=_SECONDS, help="of the timed steps of a run")
    made.add_argument("--file", type=Path, default=PREDICTIONS)
    made.add_argument("--uncommitted", action="store_true", help="only to see that it works")
    return made.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
