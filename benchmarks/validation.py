"""What it takes to find eleven violations in one request, and to read the model before the first.

Usage: python benchmarks/validation.py [--runs 200] [-o json]
The target is 10 ms for a request, once the model is read. Times are of the processor: nothing is
waited for, so that what else the machine does is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "request"))

from request_mutants import ELEVEN

from launcher.client.request import find_violations

TARGET_MS = 10.0


def milliseconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return (time.process_time() - start) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()

    request = ELEVEN.request
    first = milliseconds(lambda: find_violations(request))
    times = [milliseconds(lambda: find_violations(request)) for _ in range(options.runs)]
    result = {
        "violations": len(find_violations(request)),
        "first_ms": round(first, 1),
        "median_ms": round(statistics.median(times), 2),
        "slowest_ms": round(max(times), 2),
        "target_ms": TARGET_MS,
    }
    if options.output == "json":
        print(json.dumps(result))
    else:
        print("\n".join(f"{name:<11} {value}" for name, value in result.items()))
    return int(result["median_ms"] > TARGET_MS)


if __name__ == "__main__":
    sys.exit(main())
