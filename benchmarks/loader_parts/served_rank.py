"""The rank of a job with one data host: reads what is served and torch's DataLoader, by turns."""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

from launcher.data import DataLoader, LoaderOptions
from loader_parts.workloads import WORKLOADS, seconds, torchs
from table.turns import in_turns

_numbers = itertools.count()


def main() -> None:
    """Measure the workloads that asked.json names, and leave their seconds with the model."""
    asked = json.loads(Path("asked.json").read_text())
    found = {name: _measured(name, asked["rounds"]) for name in asked["workloads"]}
    Path(os.environ["SM_MODEL_DIR"], "served.json").write_text(json.dumps(found))


def _measured(name: str, rounds: int) -> dict[str, list[float]]:
    work, clock = WORKLOADS[name], time.perf_counter
    return in_turns(
        rounds,
        {
            "torch, in the job": lambda: seconds(torchs(work), clock),
            "served": lambda: seconds(_served(name), clock),
        },
    )


def _served(name: str) -> Any:
    """Return a loader of its own, so that data hosts prepare nothing in torch's turn."""
    work = WORKLOADS[name]
    collate = work.collate_fn and f"loader_parts.workloads:{work.collate_fn.__name__}"
    return DataLoader(
        "loader_parts.workloads:dataset",
        work.batch_size,
        dataset_args={"name": name},
        collate_fn=collate,
        name=f"{name}, {next(_numbers)}",
        epochs=1,
        options=LoaderOptions(verify=0),
    )
