"""How long a rank waits when the network cable of one of two data hosts is cut: no goodbye.

A job of the local session, whose hosts have networks of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from data_service_parts.bench import Bench
from data_service_parts.inside import variables
from data_service_parts.job import INSIDE
from launcher.client.sessions import JobFolder, choose_isolation, network_faults
from launcher.errors import PlatformError
from table.figures import Figure, at_most
from table.rows import Invalid

_GROUPS = {"data_group": (2, "data"), "train_group": (1, "train")}
_DESCRIPTION = {
    "entry_point": "longest_wait.py",
    "source_dir": ".",
    "instance_groups": [
        {"instance_group_name": group, "instance_type": "local", "instance_count": n, "role": role}
        for group, (n, role) in _GROUPS.items()
    ],
    "data_service": {"datasets": ["pipeline:sleeping"], "workers_per_host": 1},
    "environment": {
        variables.SAMPLE_BYTES: "3072",
        variables.DATASET: "pipeline:sleeping",
        variables.SLEEP: "0.005",
    },
}


def measure(bench: Bench) -> Iterator[Figure]:
    try:
        choose_isolation("network")
    except PlatformError as error:
        yield _figure([], str(error))
        return
    yield _figure([_stall(bench, index) for index in range(bench.rounds)])


def _figure(values: list[float], note: str = "") -> Figure:
    return Figure(
        row="cut link",
        what="one of two data hosts cut off: longest wait beyond the usual",
        values=values,
        unit="s",
        target=at_most(3.0),
        note=note,
    )


def _stall(bench: Bench, index: int) -> float:
    folder = bench.folder / f"cut-{index}"
    shutil.copytree(INSIDE, folder / "code", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "code" / "job.yaml").write_text(json.dumps(_DESCRIPTION))  # JSON is YAML
    with _running(folder) as job:
        usual = _await_word(job, "usual")
        network_faults.cut(job, "algo-1")
        disturbed = _await_word(job, "disturbed")
        network_faults.restore(job, "algo-1")
    return max(0.0, disturbed - usual)


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[JobFolder]:
    command = [
        sys.executable,
        "-m",
        "launcher",
        "run",
        str(folder / "code" / "job.yaml"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--local", "--isolation", "network", "--name", "cut"],
            env={**os.environ, "LAUNCHER_HOME": str(folder / "home")},
            stdout=log,
            stderr=log,
        )
    try:
        yield JobFolder(folder / "home" / "jobs" / "cut")
        process.wait(60)
    except Invalid as error:
        raise Invalid(f"{error}\n{(folder / 'log').read_text()[-2000:]}") from error
    finally:
        process.kill()


def _await_word(job: JobFolder, name: str, patience: float = 90.0) -> float:
    """The number that the training script prints by this name."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        for log in job.logs.glob("algo-3-*.log"):
            if found := re.search(rf"\b{name}=([0-9.]+)", log.read_text()):
                return float(found[1])
        time.sleep(0.02)
    raise Invalid(f"the job did not say {name}= in {patience:.0f} s")
