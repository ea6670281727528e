"""Plans as text, in a golden file: the reason, the table, the notes, and each number's formula."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from test_parallel_strategy import LARGE, UNMEASURED
from test_recommendation import C5_9, G5, WORKLOAD, changed, chosen, priced

from launcher.client.planning import (
    Measure,
    PlanLimits,
    PlanOrder,
    PricedType,
    Workload,
    explained_clusters,
)

FREE, LIMITED, ENDLESS = priced("ml.g5.xlarge", 0), PlanLimits, changed(epochs=None)
LIGHT = changed(cpu_seconds_per_sample=Measure.exact(0.001))
SLOW = changed(wait_seconds_per_sample=Measure.exact(0.04))
SLOWER = changed(wait_seconds_per_sample=Measure.exact(0.002), bytes_per_worker=2.5 * 2**30)
HEAVY = changed(bytes_per_batch=2e9, cpu_seconds_per_sample=Measure.exact(0.003))
BY_TIME = {"order": PlanOrder.TIME}
PLANS: dict[str, tuple[Workload, list[PricedType], dict[str, Any]]] = {
    "the accelerator is the bottleneck": (LIGHT, [G5, priced("ml.c5.xlarge", 0.204)], {}),
    "a data group costs more than it saves": (WORKLOAD, [G5, priced("ml.c5.xlarge", 9)], {}),
    "a data group pays, explained": (WORKLOAD, [G5, C5_9], {}),
    "samples wait for storage, explained": (SLOW, [G5, C5_9], {}),
    "storage leaves less of the time": (SLOWER, [G5, C5_9], {}),
    "receiving takes longer": (HEAVY, [G5, priced("ml.c5.9xlarge", 1)], {}),
    "receiving takes longer, by time": (HEAVY, [G5, priced("ml.c5.9xlarge", 1)], BY_TIME),
    "a data group is too dear": (WORKLOAD, [G5, C5_9], {"limits": LIMITED(max_cost_per_hour=2)}),
    "no cluster is cheap enough": (WORKLOAD, [G5], {"limits": LIMITED(max_cost_per_hour=1)}),
    "a deadline without epochs": (ENDLESS, [G5], {"limits": LIMITED(deadline_hours=1000)}),
    "only a data group is in time": (
        *(WORKLOAD, [G5, C5_9]),
        {"limits": LIMITED(deadline_hours=0.5), **BY_TIME},
    ),
    "a free cluster, explained": (WORKLOAD, [FREE, C5_9], {}),
    "a free cluster is left for a faster one": (WORKLOAD, [FREE, C5_9], BY_TIME),
    "fewer workers than vCPUs": (changed(bytes_per_worker=4.0 * 2**30), [G5, C5_9], {}),
    "workers fit into data hosts alone": (changed(bytes_per_worker=40.0 * 2**30), [G5, C5_9], {}),
    "workers fit nowhere": (changed(bytes_per_worker=40.0 * 2**30), [G5], {}),
    "a model in few samples at once, explained": (LARGE, [priced("ml.g5.12xlarge", 7.09)], {}),
    "a batch that is kept for many ranks": (
        *(replace(LARGE, model=UNMEASURED), [priced("ml.g5.48xlarge", 20.36)]),
        {"train_hosts": [4]},
    ),
}


def test_plans_read_as_in_the_golden_file() -> None:
    """UPDATE_GOLDEN=1 renews it: read the difference."""
    file = Path(__file__).parent / "golden" / "plans.txt"
    parts = []
    for name, (workload, types, asked) in PLANS.items():
        plan = chosen(workload, types, **asked)
        explained = explained_clusters(plan) if name.endswith("explained") else ()
        parts.append("\n".join([f"## {name}", "", repr(plan), *explained, "", ""]))
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text("".join(parts))
    assert "".join(parts) == file.read_text()
