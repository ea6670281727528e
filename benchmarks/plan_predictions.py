"""Predicted steps beside those of real jobs on this machine: six workloads, 0 to 3 data workers.

Usage: python benchmarks/plan_predictions.py predict
       git add benchmarks/plan_predictions.json && git commit
       python benchmarks/plan_predictions.py run [--rounds 5] [--workloads tokens,...]

`predict` profiles each workload several times in turns, and writes what it predicts from the
medians, with the number of cores. `run` reads that file, which must be committed, runs the jobs in
turns, and prints a row for each. A prediction is right within 10 % of the median, or twice the
interquartile range; at least 22 of 24 must be, and none may be off by more than 20 %. Nothing else
may run: about 6 minutes for `predict`, and 45 for `run`.
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
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planner_parts.predicted_workloads import WORKLOADS, PredictedWorkload, median_parts, predict
from planner_parts.timed_jobs import measure_parts, run_job
from table.turns import in_turns

PREDICTIONS = Path(__file__).with_suffix(".json")
_MOST_WORKERS = 3
_NEAR, _FAR, _FEWEST = 0.10, 0.20, 22 / 24
#: Seconds of the timed steps of a run, about.
_SECONDS = 15.0
_PROFILES = 5


def main() -> int:
    options = _parse(sys.argv[1:])
    chosen = [each for each in WORKLOADS if each.name in options.workloads]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="launcher-bench-") as folder:
        if options.what == "predict":
            code = _predict(chosen, Path(folder), options.file)
        else:
            code = _run(chosen, Path(folder), options)
    print(f"{time.monotonic() - began:.0f} s in all")
    return code


def _predict(chosen: Sequence[PredictedWorkload], folder: Path, file: Path) -> int:
    cores = len(os.sched_getaffinity(0))
    found = in_turns(
        _PROFILES,
        {each.name: functools.partial(measure_parts, each, folder) for each in chosen},
    )
    rows = {}
    for each in chosen:
        parts = median_parts(found[each.name])
        steps = [predict(parts, each.batch_size, n, cores) for n in range(_MOST_WORKERS + 1)]
        rows[each.name] = {"parts": asdict(parts), "step_seconds": steps}
        print(f"{each.name:<8}", "  ".join(f"{1000 * step:.1f} ms" for step in steps), flush=True)
    file.write_text(json.dumps({"cores": cores, "workloads": rows}, indent=1) + "\n")
    return 0


def _run(chosen: Sequence[PredictedWorkload], folder: Path, options: argparse.Namespace) -> int:
    if not options.uncommitted and not _is_committed(options.file):
        print(f"{options.file} is not committed: predictions come before the runs", file=sys.stderr)
        return 2
    predicted = json.loads(options.file.read_text())["workloads"]
    cases = {(each, n): predicted[each.name]["step_seconds"][n] for each in chosen for n in _COUNTS}
    found = in_turns(
        options.rounds,
        {
            f"{each.name} {n}": _job(each, n, step, folder, options.seconds)
            for (each, n), step in cases.items()
        },
    )
    verdicts = [
        _row(each.name, n, step, found[f"{each.name} {n}"]) for (each, n), step in cases.items()
    ]
    near, far = sum(is_near for is_near, _ in verdicts), sum(is_far for _, is_far in verdicts)
    print(f"{near} of {len(verdicts)} right, {far} off by more than {_FAR:.0%}")
    return 0 if near >= _FEWEST * len(verdicts) and not far else 1


_COUNTS = range(_MOST_WORKERS + 1)


def _job(each: PredictedWorkload, workers: int, step: float, folder: Path, seconds: float) -> Any:
    steps = max(20, round(seconds / step))
    warm = max(10, steps // 5)
    return lambda: run_job(each, folder, workers=workers, warm=warm, steps=steps)["seconds"]


def _row(name: str, workers: int, predicted: float, values: Sequence[float]) -> tuple[bool, bool]:
    """Print a row; return whether the prediction is right, and whether it is far off."""
    measured = statistics.median(values)
    spread = 0.0
    if len(values) > 1:
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        spread = high - low
    error = predicted / measured - 1
    is_near = abs(predicted - measured) <= max(_NEAR * measured, 2 * spread)
    print(
        f"{name:<8} {workers} workers  predicted {1000 * predicted:7.1f} ms  measured "
        f"{1000 * measured:7.1f} ms  IQR {1000 * spread:5.1f} ms  {error:+6.1%}  "
        f"{'right' if is_near else 'WRONG'}",
        flush=True,
    )
    return is_near, abs(error) > _FAR


def _is_committed(file: Path) -> bool:
    command = ["git", "-C", str(file.parent), "status", "--porcelain", "--", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return file.exists() and not done.stdout.strip()


def _parse(words: list[str]) -> argparse.Namespace:
    names = [each.name for each in WORKLOADS]
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("what", choices=["predict", "run"])
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--workloads", type=lambda text: text.split(","), default=names)
    made.add_argument("--seconds", type=float, default=_SECONDS, help="of the timed steps of a run")
    made.add_argument("--file", type=Path, default=PREDICTIONS)
    made.add_argument("--uncommitted", action="store_true", help="only to see that it works")
    return made.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
