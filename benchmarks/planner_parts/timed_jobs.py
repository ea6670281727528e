"""Jobs of the predicted workloads on this machine: profiled, and run with some data workers."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from data_service_parts.job import Hosts  # which knows where it lives
from launcher.shared import DataPart, JobDocument, Role, TrainerPart, slab_bytes
from planner_parts.predicted_workloads import BATCHES_AHEAD, MeasuredParts, PredictedWorkload
from table.rows import Invalid

_INSIDE = Path(__file__).parent / "inside"
_NUMBERS = itertools.count()
#: As for data workers: without it, a script that prepares large batches itself is slower than they.
_KEEPS_FREED_BLOCKS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_TIMED = re.compile(r"timed: (\{.*\})")


def measure_parts(each: PredictedWorkload, folder: Path) -> MeasuredParts:
    """Measure a workload with `launcher plan measure`, and time steps between batches."""
    out = folder / f"{each.name}-{next(_NUMBERS)}.yaml"
    words = ["plan", "measure", "work_samples:train_set", "--batch-size", str(each.batch_size)]
    subprocess.run(
        [sys.executable, "-m", "launcher", *words, "--out", str(out)],
        cwd=_INSIDE,
        env={**_inherited(), "BENCH_WORKLOAD": each.name},
        check=True,
        capture_output=True,
    )
    found = yaml.safe_load(out.read_text())
    step = run_job(each, folder, workers=0, warm=5, steps=50)
    return MeasuredParts(
        sample_cpu=found["cpu_seconds_per_sample"]["mean"],
        sample_wait=found.get("wait_seconds_per_sample", {"mean": 0.0})["mean"],
        batch_bytes=found["bytes_per_batch"],
        efficiency=found["parallel_efficiency"],
        step_seconds=step["step_seconds"],
        step_cpu=step["step_cpu"],
    )


def run_job(
    each: PredictedWorkload, folder: Path, *, workers: int, warm: int, steps: int
) -> Mapping[str, float]:
    """Run a real job and return what inside/timed_steps.py found."""
    roles = {"train_group": Role.TRAIN} | ({"data_group": Role.DATA} if workers else {})
    document = JobDocument(
        roles=roles,
        trainer=TrainerPart(entry_point="timed_steps.py", hang_timeout=0),
        data=DataPart(
            datasets=("work_samples:train_set",),
            workers_per_host=max(1, workers),
            prefetch_bytes=BATCHES_AHEAD * slab_bytes(each.batch_bytes),
        ),
    )
    hosts = Hosts(
        folder / f"timed-{next(_NUMBERS)}",
        document,
        dict.fromkeys(roles, 1),
        {path.name: path.read_text() for path in _INSIDE.glob("*.py")},
        environment={
            "BENCH_WORKLOAD": each.name,
            "BENCH_TRAIN": each.train,
            "BENCH_BATCH": str(each.batch_size),
            "BENCH_WARM": str(warm),
            "BENCH_STEPS": str(steps),
            **_KEEPS_FREED_BLOCKS,
        },
    )
    try:
        hosts.start()
        codes = hosts.wait()
        output = str(hosts.output())
    finally:
        hosts.kill()
    timed = _TIMED.search(output)
    if timed is None or set(codes.values()) != {0}:
        raise Invalid(f"{each.name} with {workers} workers: {codes}\n{output[-2000:]}")
    return dict(json.loads(timed[1]))


def _inherited() -> Mapping[str, str]:
    import os

    return os.environ
