"""The predicted step: resources, the share of the data group, and the range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.client import catalogue
from launcher.client.planning import (
    SECONDS_PER_GB,
    SERVED_BATCHES,
    Bottleneck,
    ClusterShape,
    GroupShape,
    Measure,
    ModelFigures,
    Workload,
    data_workers,
    estimate_step,
    local_workers,
    spare_vcpus,
    traffic,
    vcpu_speed,
)
from launcher.shared import Footprint

#: A step of one g5.xlarge: 64 samples x 10 ms = 0.64 vCPU seconds; 3 idle vCPUs take 0.2133 s.
WORKLOAD = Workload(
    batch_size=64,
    cpu_seconds_per_batch=Measure.exact(0),
    start_seconds=Measure.exact(0),
    cpu_seconds_per_sample=Measure.exact(0.01),
    bytes_per_batch=1e6,
    gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(0.05)},
    cpu_speed={"g5": 1.0, "c5": 1.0},
)


def instance(name: str) -> catalogue.InstanceType:
    found = catalogue.find(name)
    assert found is not None
    return found


def shape(train: str, data: str | None = None, hosts: int = 1, trainers: int = 1) -> ClusterShape:
    types = [catalogue.find(name) for name in (train, data) if name]
    groups = [
        GroupShape(instance=each, count=count)
        for each, count in zip(types, (trainers, hosts), strict=False)
        if each
    ]
    return ClusterShape(train=groups[0], data=groups[1] if data else None)


def test_idle_vcpus_of_the_train_host_prepare_the_batches() -> None:
    step = estimate_step(WORKLOAD, shape("ml.g5.xlarge"))

    assert step.seconds.expected == pytest.approx(0.64 / 3)
    assert step.bottleneck is Bottleneck.TRAIN_CPU
    assert step.gpu_busy == pytest.approx(0.05 / (0.64 / 3))
    assert step.offloaded == 0


def test_a_batch_costs_its_loader_and_both_sides_of_the_data_service() -> None:
    costly = replace(WORKLOAD, cpu_seconds_per_batch=Measure.exact(0.01))
    step = estimate_step(costly, shape("ml.g5.xlarge", "ml.c5.xlarge"))
    share, served = step.offloaded, 0.01 * SERVED_BATCHES + 0.001 * SECONDS_PER_GB

    assert estimate_step(costly, shape("ml.g5.xlarge")).expected == pytest.approx(0.65 / 3)
    assert step.expected == pytest.approx((0.65 * (1 - share) + served * share) / 3)
    assert step.expected == pytest.approx((0.65 + served) * share / 4)


def test_more_vcpus_of_the_family_move_the_bottleneck_to_the_accelerator() -> None:
    step = estimate_step(WORKLOAD, shape("ml.g5.8xlarge"))

    assert step.seconds.expected == 0.05
    assert (step.bottleneck, step.gpu_busy) == (Bottleneck.ACCELERATOR, 1)


def test_a_data_group_takes_the_share_by_which_both_sides_take_as_long() -> None:
    step = estimate_step(WORKLOAD, shape("ml.g5.xlarge", "ml.c5.xlarge"))
    share = step.offloaded
    receive = 0.001 * SECONDS_PER_GB

    local = (0.64 * (1 - share) + receive * share) / 3
    remote = (0.64 + receive) * share / 4
    assert local == pytest.approx(remote)
    assert step.seconds.expected == pytest.approx(local)
    assert step.bottleneck is Bottleneck.DATA_CPU


def test_nothing_is_sent_where_receiving_takes_longer_than_preparing() -> None:
    light = replace(WORKLOAD, cpu_seconds_per_sample=Measure.exact(0.001))
    heavy = replace(light, bytes_per_batch=10e9)  # 1.4 s of CPU to receive, 0.064 s to prepare
    step = estimate_step(heavy, shape("ml.g5.16xlarge", "ml.c5.18xlarge"))

    assert step.offloaded == 0
    assert step.seconds == estimate_step(heavy, shape("ml.g5.16xlarge")).seconds


@pytest.mark.parametrize(
    ("train", "data", "hosts", "size", "bottleneck"),
    [
        ("ml.g5.xlarge", "ml.c5.18xlarge", 4, 0.1, Bottleneck.TRAIN_NETWORK),
        ("ml.g5.16xlarge", "ml.c5.xlarge", 1, 1.0, Bottleneck.DATA_NETWORK),
    ],
)
def test_the_network_of_either_side_limits(
    train: str, data: str, hosts: int, size: float, bottleneck: Bottleneck
) -> None:
    slow = replace(
        WORKLOAD,
        cpu_seconds_per_sample=Measure.exact(0.4 * size),
        bytes_per_batch=1.5e9 * size,
    )
    found = estimate_step(slow, shape(train, data, hosts))

    assert found.bottleneck is bottleneck
    assert found.seconds.expected == max(found.seconds_by_resource.values())


def test_an_unknown_network_is_no_limit() -> None:
    p3 = replace(WORKLOAD, gpu_seconds_per_step={"NVIDIA V100": Measure.exact(0.05)})
    step = estimate_step(p3, shape("ml.p3.2xlarge", "ml.c5.18xlarge"))

    assert step.seconds_by_resource[Bottleneck.TRAIN_NETWORK] == 0


def test_ranks_keep_vcpus_busy_themselves() -> None:
    p4d = catalogue.find("ml.p4d.24xlarge")
    assert p4d is not None

    assert spare_vcpus(WORKLOAD, GroupShape(instance=p4d, count=2)) == 2 * (96 - 8)
    greedy = replace(WORKLOAD, cpus_per_rank=20)
    assert spare_vcpus(greedy, GroupShape(instance=p4d, count=1)) == 0


def test_without_idle_vcpus_nothing_prepares_batches_or_receives_them() -> None:
    greedy = replace(WORKLOAD, cpus_per_rank=4)
    step = estimate_step(greedy, shape("ml.g5.xlarge", "ml.c5.xlarge"))

    assert step.seconds.expected == float("inf")
    assert step.gpu_busy == 0


@pytest.mark.parametrize(
    ("workers", "changes", "data", "seconds"),
    [
        pytest.param(0, {}, None, 0.64 + 0.05, id="the rank prepares, then trains"),
        pytest.param(1, {}, None, 0.64, id="one worker, beside the rank"),
        pytest.param(3, {}, None, 0.64 / 3, id="one for each idle vCPU"),
        pytest.param(4, {}, None, (0.64 + 0.05) / 4, id="as many as vCPUs, beside the rank"),
        pytest.param(9, {}, None, (0.64 + 0.05) / 4, id="more of them make nothing faster"),
        pytest.param(9, {"cpus_per_rank": 0.0}, None, 0.64 / 4, id="a rank that needs no CPU"),
        pytest.param(
            *(9, {"parallel_efficiency": 0.8}, None, (0.64 + 0.05) / 4 / 0.8), id="busy vCPUs"
        ),
        pytest.param(20, {"cpu_seconds_per_sample": Measure.exact(1e-3)}, None, 0.05, id="light"),
        pytest.param(
            *(1, {"wait_seconds_per_sample": Measure.exact(0.02)}, None, 64 * 0.03), id="storage"
        ),
        pytest.param(
            *(9, {"wait_seconds_per_sample": Measure.exact(0.02)}, None, 64 * 0.03 / 9),
            id="storage for several",
        ),
        pytest.param(
            *(0, {"cpus_per_rank": 4.0}, "ml.c5.18xlarge", 0.001 * SECONDS_PER_GB / 4 + 0.05),
            id="a busy rank's vCPUs receive",
        ),
    ],
)
def test_workers_of_a_given_number_share_the_vcpus_with_the_ranks(
    workers: int, changes: dict[str, Any], data: str | None, seconds: float
) -> None:
    alone = shape("ml.g5.xlarge", data)
    shared = replace(alone, train=replace(alone.train, workers=workers))
    step = estimate_step(replace(WORKLOAD, **changes), shared)

    assert step.expected == pytest.approx(seconds)
    assert local_workers(WORKLOAD, shared.train) == workers


def test_more_train_hosts_exchange_gradients() -> None:
    talking = replace(WORKLOAD, communication_seconds_per_step=Measure.exact(0.02))
    one = estimate_step(talking, shape("ml.g5.16xlarge"))
    two = estimate_step(talking, shape("ml.g5.16xlarge", trainers=2))

    assert (one.seconds.expected, two.seconds.expected) == pytest.approx((0.05, 0.07))


MODEL = ModelFigures(footprint=Footprint(parameters=10**9, gradients=10**9, states=2 * 10**9))


@pytest.mark.parametrize("hosts", [2, 4, 64])
def test_gradients_take_the_time_of_the_network_beside_the_backward_pass(hosts: int) -> None:
    """A host of g5.16xlarge has 25 Gbit/s, and sends 2 (n - 1) / n of a GB, or 2 in a tree."""
    step = estimate_step(replace(WORKLOAD, model=MODEL), shape("ml.g5.16xlarge", trainers=hosts))
    ring, tree, buckets = 2 * (hosts - 1), 2 * hosts.bit_length() - 2, 38.2 * (hosts - 1) / hosts

    def seconds(share: float, turn: float) -> float:
        in_ring = ring / hosts * 8 / (share * 25) + buckets * ring * turn
        in_tree = (16 if hosts > 2 else 8) / (share * 25) + buckets * tree * turn
        return min(in_ring, in_tree)

    assert (step.seconds.low, step.seconds.expected, step.seconds.high) == pytest.approx(
        (0.05 / 3 + seconds(0.9, 6e-6), 0.025 + seconds(0.7, 2e-5), 0.05 + seconds(0.5, 8e-5)),
        rel=0.01,  # buckets are whole
    )


def test_a_short_exchange_still_waits_for_its_last_bucket() -> None:
    small = Footprint(parameters=10**7, gradients=10**7, states=0)
    model = replace(WORKLOAD, model=ModelFigures(footprint=small))
    step = estimate_step(model, shape("ml.g5.16xlarge", trainers=2))

    assert step.seconds.expected == pytest.approx(0.05 + 10**7 * 8 / (0.7 * 25e9) + 2 * 2e-5)


@pytest.mark.parametrize(
    ("name", "accelerator", "gigabytes_a_second"),
    [
        ("ml.p4d.24xlarge", "NVIDIA A100", 0.77 * 300),
        ("ml.g5.48xlarge", "NVIDIA A10G", 0.4 * 32),
        ("ml.trn1.32xlarge", "AWS Trainium", float("inf")),  # unknown, so it is not counted
    ],
)
def test_ranks_of_one_host_exchange_over_its_links(
    name: str, accelerator: str, gigabytes_a_second: float
) -> None:
    seconds = {accelerator: Measure.exact(0.05)}
    quick = replace(WORKLOAD, model=MODEL, gpu_seconds_per_step=seconds, batch_size=1)
    found, ranks = estimate_step(quick, shape(name)), instance(name).processes
    link = 2 * (ranks - 1) / ranks / gigabytes_a_second
    last = 2 * 25 * 2**20 / 1e9 / gigabytes_a_second

    assert found.expected == pytest.approx(0.05 + max(last, link - 0.025))


LARGE_MODEL = Footprint(parameters=10**10, gradients=10**10, states=10**10, largest=10**8)
#: Shards do not hold it: its one block is gathered whole.
BIG = dict.fromkeys(("parameters", "gradients", "states", "largest", "rest"), 2 * 10**10)
ONE_BLOCK = Footprint(**BIG)


@pytest.mark.parametrize(
    ("footprint", "output", "name", "hosts", "sent"),
    [
        pytest.param(MODEL.footprint, None, "ml.p4d.24xlarge", 2, (1, 1.75), id="replicas"),
        # They gather half of the parameters twice, in 16 bits; gradients go once.
        pytest.param(LARGE_MODEL, None, "ml.g5.48xlarge", 2, (10, 17.5), id="shards"),
        pytest.param(ONE_BLOCK, 10**6, "ml.g5.48xlarge", 2, (20, 5.512), id="four stages a host"),
        pytest.param(ONE_BLOCK, 10**6, "ml.g5.xlarge", 8, (5.512, 0), id="one stage a host"),
        pytest.param(ONE_BLOCK, None, "ml.g5.xlarge", 8, None, id="stages of unknown output"),
    ],
)
def test_bytes_that_a_strategy_sends(
    footprint: Footprint,
    output: int | None,
    name: str,
    hosts: int,
    sent: tuple[float, float] | None,
) -> None:
    model = ModelFigures(footprint=footprint, stage_output=output)
    found = traffic(replace(WORKLOAD, model=model), instance(name), hosts)

    assert (found and (found.host / 1e9, found.rank / 1e9)) == (sent and pytest.approx(sent))
    assert traffic(WORKLOAD, instance(name), hosts) is None


def test_the_range_is_that_of_the_measures() -> None:
    cpu = Measure(mean=0.01, low=0.009, high=0.012)
    step = estimate_step(replace(WORKLOAD, cpu_seconds_per_sample=cpu), shape("ml.g5.xlarge"))

    ends = (step.seconds.low, step.seconds.expected, step.seconds.high)
    assert ends == pytest.approx((0.64 * 0.9 / 3, 0.64 / 3, 0.64 * 1.2 / 3))


def test_skewed_samples_widen_the_range_upwards() -> None:
    """64 x 3 samples are prepared at one time: two standard errors are 2 x 0.02 / sqrt(192)."""
    cpu = replace(Measure.exact(0.01), deviation=0.02)
    step = estimate_step(replace(WORKLOAD, cpu_seconds_per_sample=cpu), shape("ml.g5.xlarge"))

    assert step.seconds.low == step.seconds.expected
    assert step.seconds.high == pytest.approx(64 * (0.01 + 0.04 / 192**0.5) / 3)


QUICK = dict.fromkeys(["NVIDIA A10G", "NVIDIA H100"], Measure.exact(0.001))


@pytest.mark.parametrize(
    ("given", "name", "speeds"),
    [
        # 1.09 (1.03 to 1.25) of a c5 in public benchmarks, whose speed is that of the workload's.
        pytest.param({"c5": 2.0}, "ml.g5.xlarge", (2.06, 2.18, 2.5), id="beside a c5"),
        pytest.param({"m5": 0.86}, "ml.g5.xlarge", (1.03, 1.09, 1.25), id="beside an m5"),
        pytest.param({}, "ml.g5.xlarge", (1.03 / 1.25, 1.09, 1.25**2), id="of an unknown CPU"),
        pytest.param({"c5": 2.0}, "ml.p5.4xlarge", (0.8, 1, 1.25), id="not in the benchmarks"),
    ],
)
def test_a_cpu_that_is_not_given_follows_by_public_benchmarks(
    given: dict[str, float], name: str, speeds: tuple[float, float, float]
) -> None:
    unknown = replace(WORKLOAD, cpu_speed=given)
    found = tuple(vcpu_speed(unknown, instance(name), end) for end in ("low", "mean", "high"))

    assert found == pytest.approx(speeds)
    seconds = estimate_step(replace(unknown, gpu_seconds_per_step=QUICK), shape(name)).seconds
    vcpus = spare_vcpus(unknown, shape(name).train)
    ends = (seconds.high, seconds.expected, seconds.low)
    assert ends == pytest.approx(tuple(0.64 / vcpus / speed for speed in speeds))


def test_a_faster_cpu_and_a_less_than_perfect_one() -> None:
    fast = replace(WORKLOAD, cpu_speed={"g5": 2.0}, parallel_efficiency=0.8)

    assert estimate_step(fast, shape("ml.g5.xlarge")).seconds.expected == pytest.approx(
        0.64 / 3 / 2 / 0.8
    )


#: A worker computes for 10 ms of a sample, and waits for 20: three of them keep a vCPU busy.
WAITING = replace(WORKLOAD, wait_seconds_per_sample=Measure(mean=0.02, low=0.01, high=0.03))
#: Half of a g5.xlarge holds three of them, and nine tenths of a c5.9xlarge 27.
LARGE = replace(WAITING, bytes_per_worker=2.4 * 2**30)


def test_more_workers_than_vcpus_hide_the_waits_for_storage() -> None:
    seconds = estimate_step(WAITING, shape("ml.g5.xlarge")).seconds

    ends = (seconds.low, seconds.expected, seconds.high)
    assert ends == pytest.approx((0.64 / 3, 0.64 / 3, 64 * 0.04 / 9))


def test_a_worker_that_has_all_the_memory_waits_for_storage() -> None:
    seconds = estimate_step(LARGE, shape("ml.g5.xlarge")).seconds

    ends = (seconds.low, seconds.expected, seconds.high)
    assert ends == pytest.approx(tuple(64 * (0.01 + wait) / 3 for wait in (0.01, 0.02, 0.03)))


def test_a_faster_cpu_waits_for_storage_as_long() -> None:
    fast = replace(LARGE, cpu_speed={"g5": 2.0}, parallel_efficiency=0.8)

    expected = estimate_step(fast, shape("ml.g5.xlarge")).seconds.expected
    assert expected == pytest.approx(64 * (0.01 / 1.6 + 0.02) / 3)


def test_workers_of_a_data_group_wait_too() -> None:
    step = estimate_step(LARGE, shape("ml.g5.xlarge", "ml.c5.9xlarge"))

    receive, local = 0.001 * SECONDS_PER_GB / 3, 64 * 0.03 / 3
    remote = 64 * 0.03 / 27 + 0.001 * SECONDS_PER_GB / 36
    share = local / (local - receive + remote)
    assert step.seconds_by_resource[Bottleneck.DATA_CPU] == pytest.approx(remote * share)
    assert step.offloaded == pytest.approx(share)


@pytest.mark.parametrize(
    ("wait", "each", "workers"),
    [
        pytest.param(0.0, 2**29, 3, id="no waits"),
        pytest.param(0.001, 2**29, 6, id="some"),
        pytest.param(0.02, 2**29, 9, id="as many as keep it busy"),
        pytest.param(0.2, 2**29, 16, id="half of 16 GiB"),
        pytest.param(0.2, 2**20, 24, id="the most"),
        pytest.param(0.2, 0.0, 24, id="no memory"),
        pytest.param(0.0, 4 * 2**30, 2, id="fewer than vCPUs"),
        pytest.param(0.2, 2**40, 0, id="more than there is"),
    ],
)
def test_workers_of_a_train_host(wait: float, each: float, workers: int) -> None:
    workload = replace(WORKLOAD, wait_seconds_per_sample=Measure.exact(wait), bytes_per_worker=each)

    assert local_workers(workload, shape("ml.g5.xlarge").train) == workers


@pytest.mark.parametrize(("each", "workers"), [(2**29, 4), (2**30 + 2**28, 5), (2**31, 3)])
def test_workers_of_a_data_host_have_nine_tenths_of_its_memory(each: float, workers: int) -> None:
    waits = Measure.exact(0.005 if each > 2**30 else 0.0)
    workload = replace(WORKLOAD, wait_seconds_per_sample=waits, bytes_per_worker=each)

    instance = catalogue.find("ml.c5.xlarge")  # 4 vCPUs, 8 GiB
    assert instance is not None
    assert data_workers(workload, instance) == workers


def test_fewer_workers_than_vcpus_take_longer() -> None:
    large = replace(WORKLOAD, bytes_per_worker=4.0 * 2**30)

    assert estimate_step(large, shape("ml.g5.xlarge")).seconds.expected == pytest.approx(0.64 / 2)


def test_hosts_without_room_for_a_worker_leave_everything_to_the_data_group() -> None:
    huge = replace(WORKLOAD, bytes_per_worker=20.0 * 2**30)

    assert estimate_step(huge, shape("ml.g5.xlarge")).expected == float("inf")
    step = estimate_step(huge, shape("ml.g5.xlarge", "ml.c5.9xlarge"))  # three workers
    assert step.offloaded == 1
    expected = 0.64 / 3 + 0.001 * SECONDS_PER_GB / 36
    assert step.seconds_by_resource[Bottleneck.DATA_CPU] == pytest.approx(expected)
    assert estimate_step(huge, shape("ml.g5.xlarge", "ml.c5.xlarge")).expected == float("inf")


@pytest.mark.parametrize("cpu", [0.0, 1e-320])
def test_samples_that_only_wait(cpu: float) -> None:
    workload = replace(WAITING, cpu_seconds_per_sample=Measure.exact(cpu), bytes_per_worker=1e6)

    assert local_workers(workload, shape("ml.g5.xlarge").train) == 3 * 8
    assert estimate_step(workload, shape("ml.g5.8xlarge")).seconds.expected == 0.05
