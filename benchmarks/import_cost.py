"""What `import launcher` costs, as a ratio to `import boto3` (medians of interleaved runs).

Usage: python benchmarks/import_cost.py [--runs 15] [-o json]
The target is a ratio of at most 0.3. Each import happens in a fresh interpreter; what starting an
empty interpreter costs is taken off both sides.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

TARGET = 0.3
STATEMENTS = {
    "empty": "pass",
    "boto3": "import boto3",
    "launcher": "import launcher",
    "Estimator": "from launcher import Estimator, InstanceGroup, TrainingInput",
    "command line": "import launcher.client.cli",
}


def seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def measure(runs: int) -> dict[str, float]:
    """Median seconds of each statement; the runs take turns, so that noise meets all alike."""
    samples: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(runs + 1):
        for name, statement in STATEMENTS.items():
            samples[name].append(seconds(statement))
    return {name: statistics.median(values[1:]) for name, values in samples.items()}


def report(medians: dict[str, float]) -> dict[str, dict[str, float]]:
    boto3 = medians["boto3"] - medians["empty"]
    return {
        name: {
            "seconds": round(medians[name] - medians["empty"], 4),
            "ratio": round((medians[name] - medians["empty"]) / boto3, 3),
        }
        for name in STATEMENTS
        if name != "empty"
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    measured = report(measure(options.runs))
    if options.output == "json":
        print(json.dumps(measured))
    else:
        for name, row in measured.items():
            print(f"{name:<14}{row['seconds'] * 1000:8.1f} ms {row['ratio']:7.2f} x boto3")
    return 0 if measured["launcher"]["ratio"] <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
