"""What `launcher list` takes with a hundred jobs, beside the start of an empty interpreter.

Usage: python benchmarks/job_list.py [--runs 15] [--jobs 100] [-o json]
The target is 0.3 s for each listing, on a machine that has nothing else to do. One job really runs;
the others are copies of its folder under names of their own, every fifth of them failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = 0.3
JOB = "entry_point: train.py\nsource_dir: .\ninstance_type: local\ninstance_count: 1\n"
LISTINGS = {
    "launcher list": (),
    "launcher list --name-contains job-9": ("--name-contains", "job-9"),
    "launcher list --status Failed": ("--status", "Failed"),
}
EMPTY = "an empty interpreter"


def make_jobs(folder: Path, count: int) -> None:
    """Run one job, and give it so many look-alikes."""
    source = folder / "source"
    source.mkdir()
    (source / "train.py").write_text("print('hello')\n")
    (source / "job.yaml").write_text(JOB)
    launcher(folder, "run", str(source / "job.yaml"), "--local", "--name", "job-0")
    jobs = folder / "home" / "jobs"
    for number in range(1, count):
        copy = jobs / f"job-{number}"
        shutil.copytree(jobs / "job-0", copy, symlinks=True)
        status = json.loads((copy / "status.json").read_text())
        status["TrainingJobName"] = copy.name
        if number % 5 == 0:
            status |= {"TrainingJobStatus": "Failed", "SecondaryStatus": "Failed"}
        (copy / "status.json").write_text(json.dumps(status))


def launcher(folder: Path, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "launcher", *arguments],
        env={**os.environ, "LAUNCHER_HOME": str(folder / "home")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def measure(folder: Path, runs: int) -> dict[str, float]:
    """Median seconds of each listing; they take turns, so that noise meets all alike."""
    samples: dict[str, list[float]] = {name: [] for name in (EMPTY, *LISTINGS)}
    for _ in range(runs + 1):
        samples[EMPTY].append(
            timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
        )
        for name, options in LISTINGS.items():
            samples[name].append(timed(lambda words=options: launcher(folder, "list", *words)))
    return {name: statistics.median(values[1:]) for name, values in samples.items()}


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_jobs(Path(name), options.jobs)
        medians = measure(Path(name), options.runs)
    if options.output == "json":
        print(json.dumps(medians))
    else:
        for name, seconds in medians.items():
            print(f"{name:<38}{seconds:6.3f} s {seconds / medians[EMPTY]:6.1f} x")
    return 0 if all(medians[name] <= TARGET for name in LISTINGS) else 1


if __name__ == "__main__":
    sys.exit(main())
