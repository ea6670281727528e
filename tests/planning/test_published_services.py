"""Published rates of data services, by number of data hosts, beside those that are predicted.

Figures are those of the artifacts of two papers: Cachew's (USENIX ATC 2022,
https://github.com/eth-easl/cachew_experiments, experiments/autoscaling/reference-results, read from
its two figures) and Pecan's (USENIX ATC 2024, https://github.com/eth-easl/pecan-experiments,
experiments/pecan/logs/sample_logs, the median of each number of remote workers). A TPU trains, and
machines of eight vCPUs prepare. The rate of the fewest of them gives the CPU seconds of a batch,
that of the TPU those of its step; the others are predicted. Networks are not stated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

import pytest

from launcher.client.catalogue import InstanceType, Price, find
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

#: Stand for the published machines: a host with one trainer process, and one of eight vCPUs.
TRAIN, DATA = "ml.p3.2xlarge", "ml.m5.2xlarge"
#: Dollars an hour of a machine that prepares, as both papers count them.
PER_HOUR = 0.42
BATCH = 128
#: The share by which a predicted rate may be off.
NEAR = 0.12


@dataclass(frozen=True)
class Service:
    """Seconds of a batch (or an epoch) by data hosts; those of the TPU alone; dollars an hour."""

    seconds: dict[int, float]
    step: float
    per_hour: float
    chosen: int | None = None


def rates(*values: float) -> dict[int, float]:
    return {hosts: 1 / value for hosts, value in enumerate(values, 1)}


SERVICES = {
    "Cachew, ResNet-50, first figure": Service(
        {1: 1730, 2: 870, 3: 645, 4: 550, 5: 512, 6: 500, 7: 492, 8: 492}, 492, 8.8, 4
    ),
    "Cachew, ResNet-50, second figure": Service(
        {1: 1437, 2: 697, 3: 430, 4: 387, 5: 391, 6: 390}, 390, 8.8, 4
    ),
    # 3235 samples a second are the TPU's, which no deployment of three passed.
    "Pecan's Cachew, ResNet-50": Service(
        rates(
            *(1.15, 2.39, 3.47, 4.62, 5.97, 7.44, 7.93, 9.26, 10.48, 12.06, 12.48, 14.02, 15.21),
            *(16.13, 17.51, 19.48, 20.58, 21.7, 22.59),
        ),
        BATCH / 3235,
        4.96,
    ),
    "Pecan, ResNet-50": Service(
        rates(2.51, 5.12, 7.62, 10.13, 12.51, 15.34, 17.86, 20.46, 22.38, 25.47), BATCH / 3235, 4.96
    ),
    "Pecan's Cachew, RetinaNet": Service(rates(1.57, 2.9, 2.88), 1 / 2.9, 4.96, 2),
}


def instance(name: str) -> InstanceType:
    found = find(name)
    assert found is not None
    return found


def shape(data_hosts: int) -> ClusterShape:
    data = GroupShape(instance=instance(DATA), count=data_hosts) if data_hosts else None
    return ClusterShape(train=GroupShape(instance=instance(TRAIN), count=1), data=data)


def calibrated(service: Service) -> Workload:
    """Return the workload of which one data host prepares as many batches as was published."""

    def workload(cpu_seconds: float) -> Workload:
        return Workload(
            batch_size=BATCH,
            cpu_seconds_per_sample=Measure.exact(cpu_seconds),
            bytes_per_batch=1,
            gpu_seconds_per_step={"NVIDIA V100": Measure.exact(service.step)},
            cpu_speed={"m5": 1.0, "p3": 1.0, "g5": 1.0},
            cpus_per_rank=7.5,  # of the host that trains, as the service alone prepares
        )

    first = service.seconds[1]
    guess = 8 * first / BATCH
    return workload(guess * first / estimate_step(workload(guess), shape(1)).expected)


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_published_rates_of_more_data_hosts_are_predicted(service: Service) -> None:
    workload = calibrated(service)
    off = {
        hosts: round(estimate_step(workload, shape(hosts)).expected / seconds - 1, 3)
        for hosts, seconds in service.seconds.items()
    }
    assert all(abs(each) <= NEAR for each in off.values()), off


def recommended(workload: Workload, train: str, per_hour: float) -> ClusterShape:
    """Return the cheapest cluster of one host that trains and any number of data hosts."""
    types = [
        PricedType(instance=instance(name), price=Price(instance_type=name, per_hour=dollars))
        for name, dollars in {train: per_hour, DATA: PER_HOUR}.items()
    ]
    every = candidates(workload, {"us-east-1": types})
    best = choose(every, workload, PlanLimits(), PlanOrder.PRICE, date(2024, 5, 1)).best
    assert best is not None
    return best.shape


@pytest.mark.parametrize("name", [name for name, each in SERVICES.items() if each.chosen])
def test_as_many_data_hosts_are_recommended_as_the_autoscaler_chose(name: str) -> None:
    service = SERVICES[name]
    found = recommended(calibrated(service), TRAIN, service.per_hour)
    assert found == shape(service.chosen or 0)


def test_none_are_recommended_where_the_trainers_own_host_is_fast_enough() -> None:
    """RetinaNet again: 197.7 samples a second with the TPU host's own CPUs, and with data hosts."""
    service = SERVICES["Pecan's Cachew, RetinaNet"]
    workload = replace(
        calibrated(service),
        gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(service.step)},
    )
    found = recommended(workload, "ml.g5.8xlarge", service.per_hour)
    assert found == ClusterShape(train=GroupShape(instance=instance("ml.g5.8xlarge"), count=1))
