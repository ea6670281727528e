"""Runs a benchmark as `--quick` does, and reads its report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a file of the benchmarks by its name, with its options."""
    name, *options = map(str, words)
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / name), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=570,
    )


def report_of(name: str, folder: Path, rows: str, *options: str) -> dict[str, Any]:
    """Return the report of some rows, each of which has ended."""
    report = folder / "report.json"
    done = run(name, "--quick", "--rows", rows, "--json", report, *options)
    assert done.returncode in (0, 1), done.stderr  # 1: a target was missed, on a busy machine
    assert report.exists(), done.stderr
    found = dict(json.loads(report.read_text()))
    did_not_end = [each["note"] for each in found["figures"] if "did not end" in each["what"]]
    assert not did_not_end, (did_not_end, done.stderr)
    return found


def figures_of(name: str, folder: Path, rows: str) -> dict[str, dict[str, Any]]:
    """Return the figures of some rows, by what they are of."""
    return {each["what"]: each for each in report_of(name, folder, rows)["figures"]}
