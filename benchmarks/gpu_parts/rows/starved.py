"""Training on photographs that starves on its own host, and not with a data host beside it."""

from __future__ import annotations

import importlib.util
import os
import statistics
from collections.abc import Iterator

from gpu_parts import gpus, job
from table.figures import Figure, at_least
from trainers_parts.bench import Bench

#: Workers of the train host, as an instance with few CPUs for its GPU has them.
_WORKERS = 2


def measure(bench: Bench) -> Iterator[Figure]:
    if importlib.util.find_spec("PIL") is None:
        yield Figure(row="starved", what="GPU busy", values=[], note="needs pillow")
        return
    helpers = max(1, (os.cpu_count() or 1) - _WORKERS - 1)
    settings = {
        "batch_size": bench.pick(128, 8),
        "widths": bench.pick([256, 512, 1024, 2048], [8, 16]),
        "workers": _WORKERS,
        "warm": bench.pick(12, 2),
        "seconds": bench.pick(12, 1),
    }
    found = job.run(
        bench.folder / "starved", "starved.py", settings, dataset="photos:dataset", workers=helpers
    )
    note = gpus.note(1)
    sides = {
        f"{_WORKERS} workers of torch's beside it": (found["train host"], None),
        f"a data host with {helpers}": (found["data host"], at_least(90)),
    }
    for name, (side, target) in sides.items():
        yield Figure(
            row="starved",
            what=f"{name}: GPU busy",
            values=[100 * statistics.fmean(side["busy"])],
            unit="%",
            target=target,
            note=note,
        )
        yield Figure(
            row="starved", what=f"{name}: rate", values=[side["images"]], unit="/s", note=note
        )
    share = found["data host"]["images"] / found["train host"]["images"]
    yield Figure(row="starved", what="faster with a data host", values=[share], note=note)
