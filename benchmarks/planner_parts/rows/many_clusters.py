"""Ten thousand clusters are compared: how long that takes, prices and all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

from launcher.client import catalogue
from launcher.client.catalogue import Price
from launcher.client.planning import (
    Measure,
    PlanLimits,
    PlanOrder,
    PricedType,
    Workload,
    candidates,
    choose,
)
from table.figures import Figure, at_least, at_most

#: Heavy enough for many data hosts to be of use.
_EVEN = Workload(
    cpu_seconds_per_batch=Measure.exact(0),
    batch_size=64,
    cpu_seconds_per_sample=Measure.exact(0.5),
    bytes_per_batch=1e3,
    gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(0.05)},
    samples_per_epoch=100_000,
    epochs=10,
)
_SKEWED = replace(_EVEN, cpu_seconds_per_sample=replace(Measure.exact(0.5), deviation=0.5))


def measure(bench: Any) -> Iterator[Figure]:
    """bench: has `rounds`."""
    types = _types()
    for name, workload in (("even samples", _EVEN), ("skewed samples", _SKEWED)):
        seconds, counts = [], []
        for _ in range(bench.rounds):
            began = time.perf_counter()
            found = candidates(workload, {"us-east-1": types}, train_hosts=(1,))
            plan = choose(found, workload, PlanLimits(), PlanOrder.PRICE, date(2026, 11, 26))
            seconds.append((time.perf_counter() - began) * 10_000 / plan.compared)
            counts.append(plan.compared)
        yield Figure(
            row="clusters",
            what=f"{name}: compared",
            values=counts,
            unit="",
            target=at_least(10_000),
        )
        yield Figure(
            row="clusters",
            what=f"{name}: seconds for 10,000",
            values=seconds,
            unit="s",
            target=at_most(1.0),
        )


def _types() -> list[PricedType]:
    """Return all types of the catalogue, at a dollar an hour each."""
    return [
        PricedType(
            instance=each,
            price=Price(instance_type=name, per_hour=1.0, region="us-east-1", as_of="2026-11"),
        )
        for name, each in catalogue.instance_types().items()
    ]
