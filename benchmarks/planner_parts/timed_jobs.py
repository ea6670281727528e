"""The workloads on this machine: profiled, run with some data workers, and over slow links."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from data_service_parts.job import Hosts  # which knows where it lives
from launcher.shared import DataPart, JobDocument, Role, TrainerPart, slab_bytes
from planner_parts.predicted_workloads import (
    BATCHES_AHEAD,
    LinkedRanks,
    MeasuredParts,
    PredictedWorkload,
)
from table.rows import Invalid

_HERE = Path(__file__).parent
_INSIDE = _HERE / "inside"
_NUMBERS = itertools.count()
#: As for data workers: without it, a script that prepares large batches itself is slower than they.
_KEEPS_FREED_BLOCKS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_TIMED = re.compile(r"timed: (.*)")
#: Blocks of a linked model, each with its gradient.
_BLOCKS = 24


def measure_parts(each: PredictedWorkload, folder: Path) -> MeasuredParts:
    """Measure a workload with `launcher plan measure`, and time steps between batches."""
    out = folder / f"{each.name}-{next(_NUMBERS)}.yaml"
    words = ["plan", "measure", "work_samples:train_set", "--batch-size", str(each.batch_size)]
    subprocess.run(
        [sys.executable, "-m", "launcher", *words, "--out", str(out)],
        cwd=_INSIDE,
        env={**os.environ, "BENCH_WORKLOAD": each.name},
        check=True,
        capture_output=True,
    )
    found = yaml.safe_load(out.read_text())
    step = run_job(each, folder, "shared 0", warm=5, steps=10)
    return MeasuredParts(
        sample_cpu=found["cpu_seconds_per_sample"]["mean"],
        deviation=found["cpu_seconds_per_sample"]["deviation"],
        sample_wait=found.get("wait_seconds_per_sample", {"mean": 0.0})["mean"],
        batch_bytes=found["bytes_per_batch"],
        efficiency=found["parallel_efficiency"],
        step_seconds=step["step_seconds"],
        step_cpu=step["step_cpu"],
    )


def run_job(
    each: PredictedWorkload, folder: Path, place: str, *, warm: int, steps: int
) -> Mapping[str, Any]:
    """Run a real job and return what inside/timed_steps.py found.

    place: "shared 2": two workers of the train host, which share all cores with the rank; "apart
    2": those of a data host that has the second core alone. steps: of each part that is timed.
    """
    kind, _, number = place.partition(" ")
    workers, cores = int(number), sorted(os.sched_getaffinity(0))
    is_apart = kind == "apart"
    groups = ["train_group", "data_group"] if is_apart and workers else ["train_group"]
    document = JobDocument(
        roles=dict(zip(groups, (Role.TRAIN, Role.DATA), strict=False)),
        trainer=TrainerPart(entry_point="timed_steps.py", hang_timeout=0),
        data=DataPart(
            datasets=("work_samples:train_set",),
            workers_per_host=max(1, workers),
            local_workers=0 if is_apart else workers,
            prefetch_bytes=BATCHES_AHEAD * slab_bytes(each.batch_bytes),
        )
        if workers
        else None,
    )
    hosts = Hosts(
        folder / f"timed-{next(_NUMBERS)}",
        document,
        dict.fromkeys(groups, 1),
        {path.name: path.read_text() for path in _INSIDE.glob("*.py")},
        environment={
            "BENCH_WORKLOAD": each.name,
            "BENCH_TRAIN": str(each.units),
            "BENCH_BATCH": str(each.batch_size),
            "BENCH_WARM": str(warm),
            "BENCH_STEPS": str(steps),
            **_KEEPS_FREED_BLOCKS,
        },
    )
    try:
        hosts.start()
        if is_apart:  # before they have started anything
            for core, host in zip(cores, hosts.hosts.values(), strict=False):
                os.sched_setaffinity(host.process.pid, {core})
        codes = hosts.wait()
        output = str(hosts.output())
    finally:
        hosts.kill()
    return _timed(output, set(codes.values()), f"{each.name} {place}")


def run_linked(each: LinkedRanks, *, steps: int, ranks: int | None = None) -> list[float]:
    """Return the seconds of each step of ranks on slow links, or of one that has none."""
    count = ranks or each.ranks
    script = _INSIDE / "linked_steps.py" if count == 1 else _HERE / "linked_ranks.py"
    settings = {
        "RANKS": count,
        "BLOCKS": _BLOCKS,
        "STEPS": steps,
        "GPU": each.seconds,
        "MEGABYTES": each.megabytes,
    }
    done = subprocess.run(
        [sys.executable, str(script), str(each.megabits)],
        env={**os.environ, **{f"BENCH_{name}": str(value) for name, value in settings.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    return list(_timed(done.stdout, {done.returncode}, f"{each.name}: {done.stderr}"))


def _timed(output: str, codes: set[int], name: str) -> Any:
    timed = _TIMED.search(output)
    if timed is None or codes != {0}:
        raise Invalid(f"{name}: {codes}\n{output[-2000:]}")
    return json.loads(timed[1])
