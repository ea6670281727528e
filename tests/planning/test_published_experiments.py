"""The arithmetic of AWS's two published experiments: prices, savings, and slips in print.

https://aws.amazon.com/blogs/machine-learning/improve-price-performance-of-your-model-training-using-amazon-sagemaker-heterogeneous-clusters/
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date

import pytest

from launcher.client import catalogue
from launcher.client.catalogue import Price
from launcher.client.planning import (
    ClusterShape,
    GroupShape,
    Measure,
    PlanLimits,
    PlanOrder,
    PricedType,
    Workload,
    candidates,
    choose,
    estimate_step,
)


@dataclass(frozen=True)
class Experiment:
    """A job alone and with its data group: hosts, step times in ms, and what is printed of them."""

    train: str
    data: str
    data_hosts: int
    alone_ms: float
    with_data_ms: float
    alone_per_hour: float
    with_data_per_hour: float
    change: str


TENSORFLOW = Experiment("ml.p4d.24xlarge", "ml.c5.18xlarge", 2, 192, 86, 37.688, 45.032, "-46%")
PYTORCH = Experiment("ml.p3.2xlarge", "ml.c5.9xlarge", 1, 1193, 184, 3.825, 5.661, "-77%")
#: Of SageMaker in us-east-1 when it was published.
PRICES = {
    "ml.p4d.24xlarge": 37.688,
    "ml.c5.18xlarge": 3.672,
    "ml.p3.2xlarge": 3.825,
    "ml.c5.9xlarge": 1.836,
}


def instance(name: str) -> catalogue.InstanceType:
    found = catalogue.find(name)
    assert found is not None
    return found


def per_step(dollars_per_hour: float, milliseconds: float) -> float:
    return dollars_per_hour / 3600 * milliseconds / 1000


def shape_of(each: Experiment, *, data_hosts: int) -> ClusterShape:
    data = GroupShape(instance=instance(each.data), count=data_hosts) if data_hosts else None
    return ClusterShape(train=GroupShape(instance=instance(each.train), count=1), data=data)


@pytest.mark.parametrize("each", [TENSORFLOW, PYTORCH], ids=["tensorflow", "pytorch"])
def test_prices_are_exact_and_their_change_is_as_printed(each: Experiment) -> None:
    alone = PRICES[each.train]
    with_data = alone + each.data_hosts * PRICES[each.data]

    assert (round(alone, 3), round(with_data, 3)) == (each.alone_per_hour, each.with_data_per_hour)
    change = per_step(with_data, each.with_data_ms) / per_step(alone, each.alone_ms) - 1
    assert f"{change:.0%}" == each.change


def test_slips_in_print() -> None:
    # Printed: $0.201 per step. It is a hundredth of that.
    assert round(per_step(37.688, 192) * 100, 3) == 0.201
    assert round(per_step(45.032, 86) * 100, 3) == 0.108
    # The notebook prints 7.6 and 1.9 cents per step: it divides the hour by 60, not by 3600.
    assert round(3.825 / 60 * 1.19 * 100, 1) == 7.6
    assert round(5.661 / 60 * 0.1968 * 100, 1) == 1.9
    assert round(per_step(3.825, 1193) * 100, 3) == 0.127
    # Its text says 45 % cheaper, and its own formula gives 47 %.
    assert round(1 - 45 / 37.7 * 86 / 192, 2) == 0.47
    p4d, c5 = instance("ml.p4d.24xlarge"), instance("ml.c5.18xlarge")
    both = (p4d.vcpu or 0) + 2 * (c5.vcpu or 0)
    assert (both, both / p4d.accelerators) == (240, 30)
    assert (p4d.vcpu or 0) / p4d.accelerators == 12  # and not 20, for which 60 % busy is printed


def calibrated_tensorflow() -> Workload:
    """The workload whose ranges fit both steps: 0.8 of 240 vCPUs at 86 ms, all of 96 at 192 ms."""
    batch = 1024
    samples = batch * instance(TENSORFLOW.train).processes
    low, high = 0.8 * 240 * 0.086 / samples, 96 * 0.192 / samples
    return Workload(
        batch_size=batch,
        cpu_seconds_per_sample=Measure(mean=math.sqrt(low * high), low=low, high=high),
        bytes_per_batch=1e6,
        gpu_seconds_per_step={"NVIDIA A100": Measure(mean=0.075, low=0.0636, high=0.0864)},
        cpu_speed={"p4d": 1.0, "c5": 1.0, "m5": 1.0},
        cpus_per_rank=0,
    )


def test_the_calibrated_tensorflow_workload_predicts_both_printed_steps() -> None:
    workload = calibrated_tensorflow()
    alone = estimate_step(workload, shape_of(TENSORFLOW, data_hosts=0)).seconds
    with_data = estimate_step(workload, shape_of(TENSORFLOW, data_hosts=2)).seconds

    assert alone.low < 0.192 <= alone.high * 1.001
    assert with_data.low < 0.086 < with_data.high


def test_the_cluster_recommended_for_the_tensorflow_workload_is_that_of_aws() -> None:
    """Of the types of that time, by the prices of that time."""
    types = [
        PricedType(instance=found, price=Price(instance_type=name, per_hour=dollars))
        for name, dollars in PRICES.items()
        if (found := catalogue.find(name))
    ]
    workload = calibrated_tensorflow()
    every = candidates(workload, {"us-east-1": types})
    best = choose(every, workload, PlanLimits(), PlanOrder.PRICE, date(2022, 10, 1)).best

    assert best is not None
    assert best.shape == shape_of(TENSORFLOW, data_hosts=2)
    assert round(best.per_hour, 3) == TENSORFLOW.with_data_per_hour
