"""The recommended cluster: equal to brute force, monotone, within limits, with a reason."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.client import catalogue
from launcher.client.catalogue import InstanceType, Price
from launcher.client.planning import (
    AS_GOOD,
    FEW_STALLS,
    MOST_DATA_HOSTS,
    SECONDS_PER_GB,
    Bottleneck,
    Candidate,
    GroupShape,
    Measure,
    PlanLimits,
    PlanOrder,
    PricedType,
    Recommendation,
    Workload,
    can_prepare,
    candidates,
    choose,
    explanation,
    family,
    priced_cluster,
    recommend,
    why_not,
)
from launcher.errors import SpecError

TODAY = date(2026, 11, 26)
TRAINERS = ("ml.g5.xlarge", "ml.g5.12xlarge", "ml.g4dn.8xlarge", "ml.p4d.24xlarge", "ml.p3.2xlarge")
FEEDERS = ("ml.c5.xlarge", "ml.c5.9xlarge", "ml.c5n.18xlarge", "ml.m5.2xlarge")
ACCELERATORS = ("NVIDIA A10G", "NVIDIA T4", "NVIDIA A100", "NVIDIA V100")
TRAIN_HOSTS = (1, 3)
WORKLOAD = Workload(
    batch_size=64,
    cpu_seconds_per_sample=Measure.exact(0.01),
    bytes_per_batch=1e6,
    gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(0.05)},
    samples_per_epoch=100_000,
    epochs=10,
)


def priced(name: str, dollars: float) -> PricedType:
    instance = catalogue.find(name)
    assert instance is not None
    price = Price(instance_type=name, per_hour=dollars, region="us-east-1", as_of="2026-11")
    return PricedType(instance=instance, price=price)


def chosen(
    workload: Workload,
    types: list[PricedType],
    limits: PlanLimits | None = None,
    order: PlanOrder = PlanOrder.PRICE,
    train_hosts: Sequence[int] = (1,),
) -> Recommendation:
    found = candidates(workload, {"us-east-1": types}, train_hosts)
    return choose(found, workload, limits or PlanLimits(), order, TODAY)


def made_up(seed: int) -> tuple[Workload, list[PricedType]]:
    """A workload and prices, from light to heavy, small to large, cheap to dear."""
    rng = random.Random(seed)

    def spread(least: float, most: float) -> float:
        return least * (most / least) ** rng.random()

    workload = Workload(
        batch_size=rng.choice([1, 8, 64, 256, 1024]),
        cpu_seconds_per_sample=Measure.exact(spread(1e-6, 1)),
        bytes_per_batch=spread(1e3, 2e9),
        gpu_seconds_per_step={name: Measure.exact(spread(1e-3, 10)) for name in ACCELERATORS},
        cpu_speed={name: spread(0.5, 2) for name in ("c5", "c5n", "m5", "g5", "p4d")},
        parallel_efficiency=rng.uniform(0.5, 1),
        cpus_per_rank=rng.choice([0, 0.5, 1, 2]),
    )
    names = rng.sample(TRAINERS, 2) + rng.sample(FEEDERS, 2)
    types = [priced(name, spread(0.1, 40)) for name in names]
    between_hosts = Measure.exact(spread(1e-3, 1))
    wait = Measure.exact(rng.choice([0, 0, spread(1e-5, 1)]))
    workload = replace(
        workload,
        communication_seconds_per_step=between_hosts,
        wait_seconds_per_sample=wait,
        bytes_per_worker=spread(1e7, 7e9),
    )
    return workload, types


def skewed(seed: int) -> tuple[Workload, list[PricedType]]:
    """The same with samples of different length."""
    workload, types = made_up(seed)
    cpu = workload.cpu_seconds_per_sample
    deviation = random.Random(seed).choice([0.3, 1, 2, 4]) * cpu.mean
    return replace(workload, cpu_seconds_per_sample=replace(cpu, deviation=deviation)), types


def slow_step(
    workload: Workload, train: PricedType, train_hosts: int, data: PricedType | None, hosts: int
) -> float:
    """Seconds of a step: every share of the data group at which two resources take as long."""
    host = train.instance
    assert host.vcpu is not None
    ranks = train_hosts * host.processes
    efficiency, speeds = workload.parallel_efficiency, workload.cpu_speed
    spare_of_host = host.vcpu - host.processes * workload.cpus_per_rank
    spare = train_hosts * spare_of_host
    idle = train_hosts * int(spare_of_host)  # a worker is a whole process
    gpu = workload.gpu_seconds_per_step[host.accelerator_name or ""].mean
    if train_hosts > 1:
        gpu += workload.communication_seconds_per_step.mean
    work = ranks * workload.batch_size * workload.cpu_seconds_per_sample.mean
    waits = ranks * workload.batch_size * workload.wait_seconds_per_sample.mean
    gigabytes = ranks * workload.bytes_per_batch / 1e9
    if idle <= 0:
        return float("inf")
    other, data_workers, vcpus = 1.0, 0, 1
    speed = speeds.get(host.name.split(".")[1], 1.0) * efficiency
    local_workers = train_hosts * slow_workers(workload, host, int(spare_of_host), 0.5)
    if local_workers:
        busy = min(idle, local_workers)
        local = max(work / speed / busy, (work / speed + waits) / local_workers)
        lines = [(local, gigabytes * SECONDS_PER_GB / spare - local)]
    else:
        lines = [(0.0, gigabytes * SECONDS_PER_GB / spare)]
    shares = [0.0, 1.0] if local_workers else [1.0]
    if data is None:
        if not local_workers:
            return float("inf")
        shares = [0.0]
    else:
        feeder = data.instance
        assert feeder.vcpu is not None
        other = speeds.get(feeder.name.split(".")[1], 1.0) * efficiency
        vcpus = hosts * feeder.vcpu
        data_workers = hosts * slow_workers(workload, feeder, feeder.vcpu, 0.9)
        if not data_workers:
            return slow_step(workload, train, train_hosts, None, 0)
        busy = min(vcpus, data_workers)
        remote = max(work / other / busy, (work / other + waits) / data_workers)
        lines.append((0, remote + gigabytes * SECONDS_PER_GB / vcpus))
        if feeder.card_gbps:
            lines.append((0, gigabytes * 8 / (hosts * feeder.card_gbps)))
        if host.card_gbps:
            lines.append((0, gigabytes * 8 / (train_hosts * host.card_gbps)))
    pairs = itertools.combinations(lines if data and local_workers else [], 2)
    for (a, slope), (b, other_slope) in pairs:
        if slope != other_slope and 0 <= (b - a) / (slope - other_slope) <= 1:
            shares.append((b - a) / (slope - other_slope))
    fastest = min(shares, key=lambda share: max(a + slope * share for a, slope in lines))
    shortest = max(a + slope * fastest for a, slope in lines)
    turns = max(1, local_workers / idle)
    batch = (1 - fastest) * max(work / speed + waits, work / speed * turns)
    workers = local_workers
    if data is not None:
        turns = max(1, data_workers / vcpus)
        batch += fastest * max(work / other + waits, work / other * turns)
        workers += data_workers
    each = workers / train_hosts
    return max(gpu, shortest, starved(host, workload, each, batch / ranks))


def slow_workers(workload: Workload, host: InstanceType, vcpus: int, share: float) -> int:
    """Workers of a host: more than vCPUs while these have time left; the memory holds them."""
    cpu, wait = workload.cpu_seconds_per_sample.mean, workload.wait_seconds_per_sample.mean
    assert host.memory_gib is not None
    each = next(n for n in range(1, 9) if n == 8 or n * cpu >= cpu + wait)
    workers = 0
    room = host.memory_gib * 2**30 * share
    while workers < each * vcpus and (workers + 1) * workload.bytes_per_worker <= room:
        workers += 1
    return workers


def starved(host: InstanceType, workload: Workload, workers: float, batch_seconds: float) -> float:
    """Seconds of a step where too few batches fit into the memory for all workers of a host."""
    ranks, megabyte = host.processes, 2**20
    unit = megabyte if workload.bytes_per_batch > megabyte else megabyte / 16
    slab = math.ceil(workload.bytes_per_batch / unit) * unit
    assert host.memory_gib is not None
    fitting = min(1 << 14, host.memory_gib * 2**30 / 2 // (ranks * slab))
    return batch_seconds / max(1, fitting) if fitting < 3 * workers / ranks + 1 else 0.0


def brute_force(workload: Workload, types: list[PricedType], order: PlanOrder) -> float:
    """The least dollars or seconds per sample of all clusters, with every number of data hosts."""
    trainers = [each for each in types if each.instance.accelerators]
    feeders = [each for each in types if not each.instance.accelerators]
    pairs: list[tuple[PricedType, PricedType | None, int]] = [(each, None, 0) for each in trainers]
    counts = range(1, MOST_DATA_HOSTS + 1)
    pairs += [(train, data, n) for train in trainers for data in feeders for n in counts]
    found = []
    for (train, data, hosts), train_hosts in itertools.product(pairs, TRAIN_HOSTS):
        seconds = slow_step(workload, train, train_hosts, data, hosts)
        dollars = train_hosts * train.price.per_hour + (hosts * data.price.per_hour if data else 0)
        samples = train_hosts * train.instance.processes * workload.batch_size
        amount = seconds if order is PlanOrder.TIME else dollars / 3600 * seconds
        found.append(amount / samples)
    return min(found)


def amount_of(each: Candidate | None, order: PlanOrder) -> float:
    assert each is not None
    return each.dollars_per_sample if order is PlanOrder.PRICE else each.seconds_per_sample


def every_cluster(workload: Workload, types: list[PricedType]) -> Iterator[Candidate]:
    """All clusters, with every number of data hosts, useful or not."""
    trainers = [each for each in types if each.instance.accelerators]
    feeders = [each for each in types if not each.instance.accelerators]
    for trainer, count in itertools.product(trainers, TRAIN_HOSTS):
        train = GroupShape(instance=trainer.instance, count=count)
        yield priced_cluster(workload, "us-east-1", train, trainer.price)
        for feeder, hosts in itertools.product(feeders, range(1, MOST_DATA_HOSTS + 1)):
            data = GroupShape(instance=feeder.instance, count=hosts)
            yield priced_cluster(workload, "us-east-1", train, trainer.price, data, feeder.price)


A_THOUSAND = pytest.mark.parametrize(
    "seeds",
    [
        range(50),
        *(
            pytest.param(range(start, start + 250), marks=pytest.mark.long)
            for start in range(0, 1000, 250)
        ),
    ],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop}",
)


@pytest.mark.parametrize("order", PlanOrder, ids=lambda each: each.value)
@A_THOUSAND
def test_the_recommended_cluster_is_that_of_brute_force(seeds: range, order: PlanOrder) -> None:
    """1,000 workloads: the least of all is found, and what is recommended is as good."""
    for seed in seeds:
        workload, types = made_up(seed)
        plan = chosen(workload, types, order=order, train_hosts=TRAIN_HOSTS)
        least = brute_force(workload, types, order)

        assert amount_of(plan.nearest, order) == pytest.approx(least, rel=1e-9), seed
        assert least * (1 - 1e-9) <= amount_of(plan.best, order) <= least * (1 + AS_GOOD), seed


@A_THOUSAND
def test_no_number_of_data_hosts_is_missed_for_skewed_samples(seeds: range) -> None:
    """Their waits fall with the data hosts after the accelerator is the bottleneck, or rise."""
    for seed in seeds:
        workload, types = skewed(seed)
        compared = list(every_cluster(workload, types))
        for order in PlanOrder:
            plan = chosen(workload, types, order=order, train_hosts=TRAIN_HOSTS)
            least = min(amount_of(each, order) for each in compared)

            assert amount_of(plan.nearest, order) == pytest.approx(least, rel=1e-9), seed
            assert amount_of(plan.best, order) <= least * (1 + AS_GOOD), seed


def test_more_data_hosts_shorten_the_waits_of_a_busy_accelerator() -> None:
    """With one the accelerator is the bottleneck already, and waits two thirds of its step."""
    workload, types = made_up(55)
    cpu = workload.cpu_seconds_per_sample
    uneven = replace(
        workload,
        cpu_seconds_per_sample=replace(cpu, deviation=2 * cpu.mean),
        wait_seconds_per_sample=Measure.exact(0.0),
    )
    plan = chosen(uneven, types)

    assert plan.best is not None
    assert plan.best.shape.data is not None
    assert plan.best.shape.data.count == 4
    assert plan.best.step.expected == pytest.approx(0.0236, abs=1e-4)
    assert plan.best.step.bottleneck is Bottleneck.ACCELERATOR
    of_pair = [
        each
        for each in every_cluster(uneven, types)
        if each.shape.data
        and each.shape.data.instance == plan.best.shape.data.instance
        and each.shape.train == plan.best.shape.train
    ]
    assert of_pair[0].step.bottleneck is Bottleneck.ACCELERATOR
    assert of_pair[0].step.stall == pytest.approx(0.0349, abs=1e-4)


@given(seed=st.integers(0, 10**6), factor=st.floats(1, 100))
@settings(max_examples=150)
def test_a_faster_cpu_never_makes_the_best_cluster_dearer(seed: int, factor: float) -> None:
    workload, types = made_up(seed)
    faster = replace(
        workload,
        cpu_seconds_per_sample=Measure.exact(workload.cpu_seconds_per_sample.mean / factor),
    )
    before, after = chosen(workload, types).nearest, chosen(faster, types).nearest

    assert amount_of(after, PlanOrder.PRICE) <= amount_of(before, PlanOrder.PRICE) * (1 + 1e-9)


@given(seed=st.integers(0, 10**6), factor=st.floats(1, 100))
@settings(max_examples=100)
def test_a_faster_cpu_makes_the_recommended_cluster_no_dearer_for_skewed_samples(
    seed: int, factor: float
) -> None:
    """But for what counts as as good, and for the waits that a prefetch may leave."""
    workload, types = skewed(seed)
    cpu = workload.cpu_seconds_per_sample
    quick = replace(Measure.exact(cpu.mean / factor), deviation=cpu.deviation / factor)
    faster = replace(workload, cpu_seconds_per_sample=quick)
    before = chosen(workload, types, train_hosts=TRAIN_HOSTS)
    after = chosen(faster, types, train_hosts=TRAIN_HOSTS)

    price = PlanOrder.PRICE
    as_good = (1 + AS_GOOD) * (1 + FEW_STALLS)
    assert amount_of(after.nearest, price) <= amount_of(before.nearest, price) * (1 + FEW_STALLS)
    assert amount_of(after.best, price) <= amount_of(before.best, price) * as_good


@pytest.mark.long
@given(seed=st.integers(0, 10**6), factor=st.floats(1, 100))
@settings(max_examples=100)
def test_smaller_batches_in_bytes_never_make_it_dearer(seed: int, factor: float) -> None:
    workload, types = made_up(seed)
    smaller = replace(workload, bytes_per_batch=workload.bytes_per_batch / factor)
    before, after = chosen(workload, types).nearest, chosen(smaller, types).nearest

    assert amount_of(after, PlanOrder.PRICE) <= amount_of(before, PlanOrder.PRICE) * (1 + 1e-9)


@pytest.mark.long
@given(seed=st.integers(0, 10**6), left_out=st.integers(0, 3))
@settings(max_examples=100)
def test_one_more_type_never_makes_it_dearer(seed: int, left_out: int) -> None:
    workload, types = made_up(seed)
    fewer = types[:left_out] + types[left_out + 1 :]
    before, after = chosen(workload, fewer).nearest, chosen(workload, types).nearest

    assert amount_of(after, PlanOrder.PRICE) <= amount_of(before, PlanOrder.PRICE)


@given(seed=st.integers(0, 10**6), limit=st.floats(0.1, 100), more=st.floats(0, 100))
@settings(max_examples=100)
def test_a_higher_limit_never_makes_it_dearer(seed: int, limit: float, more: float) -> None:
    workload, types = made_up(seed)
    before = chosen(workload, types, PlanLimits(max_cost_per_hour=limit)).shown
    after = chosen(workload, types, PlanLimits(max_cost_per_hour=limit + more)).shown

    if before:
        least = [min(each.dollars_per_sample for each in found) for found in (before, after)]
        assert least[1] <= least[0]
    assert all(each.per_hour <= limit for each in before)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=100)
def test_what_is_predicted_is_possible(seed: int) -> None:
    workload, types = made_up(seed)
    for each in candidates(workload, {"us-east-1": types}):
        step = each.step
        assert step.seconds.low <= step.seconds.expected <= step.seconds.high
        assert 0 <= step.gpu_busy <= 1 + 1e-12
        assert 0 <= step.offloaded <= 1
        assert step.seconds_by_resource[step.bottleneck] == pytest.approx(step.seconds.expected)


@pytest.mark.long
def test_ten_thousand_clusters_are_compared() -> None:
    slow = replace(WORKLOAD, cpu_seconds_per_sample=Measure.exact(0.5))
    names = [name for name in catalogue.instance_types() if not name.startswith("ml.g5.")]
    types = [priced(name, 1.0) for name in ("ml.g5.12xlarge", "ml.g5.24xlarge", *names)]
    light = replace(slow, bytes_per_batch=1e3)
    found = candidates(light, {"us-east-1": types}, train_hosts=(1, 2))
    plan = choose(found, light, PlanLimits(), PlanOrder.PRICE, TODAY)

    assert plan.compared > 10_000
    assert plan.best is not None


def test_fewer_hosts_are_recommended_where_they_are_as_good() -> None:
    small, large = priced("ml.c5.xlarge", 0.204), priced("ml.c5.9xlarge", 0.204 * 9.03)
    heavy = replace(WORKLOAD, cpu_seconds_per_sample=Measure.exact(0.03))
    plan = chosen(heavy, [priced("ml.g5.xlarge", 1.408), small, large])

    assert plan.nearest is not None
    assert plan.best is not None
    assert plan.nearest.shape.data is not None
    assert plan.best.hosts <= plan.nearest.hosts


def test_do_not_add_a_data_group_where_the_accelerator_is_the_bottleneck() -> None:
    light = replace(WORKLOAD, cpu_seconds_per_sample=Measure.exact(0.001))
    plan = chosen(light, [priced("ml.g5.xlarge", 1.408), priced("ml.c5.xlarge", 0.204)])

    assert plan.best is not None
    assert plan.best.shape.data is None
    assert plan.reason.startswith("do not add a data group: the accelerators are the bottleneck")
    assert "prepare the batches in 43% of the step" in plan.reason
    assert "preparing a sample may take" not in repr(plan)


def test_do_not_add_a_data_group_that_costs_more_than_it_saves() -> None:
    plan = chosen(WORKLOAD, [priced("ml.g5.xlarge", 1.408), priced("ml.c5.xlarge", 9.0)])

    assert plan.best is not None
    assert plan.best.shape.data is None
    assert "cost more than it saves" in plan.reason


def test_the_reason_for_a_data_group_has_its_numbers() -> None:
    plan = chosen(WORKLOAD, [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)])

    assert plan.best is not None
    assert plan.reason == (
        "1 x ml.c5.9xlarge prepare 92% of the batches, so the step takes 50 ms instead of 213 ms, "
        "and a sample costs 46% less"
    )
    assert "without a data group, preparing a sample may take 2.34 ms of a vCPU" in repr(plan)
    assert "takes 10: 4.3 times as much" in repr(plan)


def test_samples_that_wait_for_storage_ask_for_more_workers() -> None:
    slow = replace(WORKLOAD, wait_seconds_per_sample=Measure.exact(0.04))
    plan = chosen(slow, [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)])

    said = repr(plan)
    assert "a sample may take 11.7 ms of a worker, and waits for storage for 40 alone" in said
    assert "waits for storage for 40 of its 50 ms, so a vCPU has up to 8 workers" in said
    assert plan.best is not None
    why = "\n".join(explanation(plan.best))
    assert "64 samples x 0.04 s = 2.56 seconds of workers" in why
    assert "vCPUs of the data group: 1 x 36 = 36, for 129 workers" in why


def test_the_time_of_preparing_is_what_storage_leaves_of_it() -> None:
    slow = replace(
        WORKLOAD, wait_seconds_per_sample=Measure.exact(0.002), bytes_per_worker=2.5 * 2**30
    )
    plan = chosen(slow, [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)])

    assert "preparing a sample may take 0.344 ms of a vCPU, and takes 10: 29.1 times" in repr(plan)


def test_a_deadline_buys_a_faster_cluster() -> None:
    types = [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 50.0)]
    slow = chosen(WORKLOAD, types).best
    assert slow is not None
    assert slow.hours is not None
    fast = chosen(WORKLOAD, types, PlanLimits(deadline_hours=slow.hours.expected / 2)).best

    assert slow.shape.data is None
    assert fast is not None
    assert fast.shape.data is not None


def test_no_cluster_within_the_limits_is_said_with_the_best_without() -> None:
    plan = chosen(WORKLOAD, [priced("ml.g5.xlarge", 1.408)], PlanLimits(max_cost_per_hour=1))

    assert plan.best is None
    assert plan.shown == ()
    assert "no cluster keeps to the limits; without them, 1 x ml.g5.xlarge is" in plan.reason
    assert "costs $1.41 an hour" in plan.reason


def test_a_deadline_without_epochs_is_kept_by_none() -> None:
    unknown = replace(WORKLOAD, epochs=None)
    plan = chosen(unknown, [priced("ml.g5.xlarge", 1.4)], PlanLimits(deadline_hours=1000))

    assert plan.best is None
    assert plan.reason.endswith("so give both")


def test_the_reason_by_time_is_no_price() -> None:
    types = [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)]
    soon = chosen(WORKLOAD, types, PlanLimits(deadline_hours=0.5), PlanOrder.TIME)

    assert soon.alone is None
    assert soon.reason.endswith(
        " x ml.c5.9xlarge beside it take least time per sample within the limits"
    )


@pytest.mark.parametrize("order", PlanOrder, ids=lambda each: each.value)
def test_do_not_add_a_data_group_where_receiving_takes_longer_than_preparing(
    order: PlanOrder,
) -> None:
    large = replace(WORKLOAD, bytes_per_batch=10e9)
    plan = chosen(large, [priced("ml.g5.xlarge", 1.4), priced("ml.c5.9xlarge", 1)], order=order)

    assert plan.reason.startswith("do not add a data group: to receive a batch takes")


def test_do_not_add_a_data_group_that_does_not_keep_to_the_limits() -> None:
    types = [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)]
    plan = chosen(WORKLOAD, types, PlanLimits(max_cost_per_hour=2))

    assert plan.reason.startswith("do not add a data group: none with a known price keeps to")
    assert "for the accelerators not to wait, preparing a sample may take 2.34 ms" in repr(plan)
    assert "takes 10: 4.3 times as much" in repr(plan)


def test_a_type_whose_ranks_leave_no_vcpu_is_named_and_not_compared(home) -> None:
    greedy = replace(WORKLOAD, cpus_per_rank=4)
    plan = recommend(greedy, gpu_types=["g5.xlarge", "g5.2xlarge"], today=TODAY)
    none = recommend(greedy, gpu_types=["g5.xlarge"], today=TODAY)

    assert plan.without_vcpus == ("ml.g5.xlarge",)
    assert {each.shape.train.instance.name for each in plan.shown} == {"ml.g5.2xlarge"}
    assert "No vCPU left by the ranks to prepare or receive: ml.g5.xlarge." in repr(plan)
    assert all(each.hours and math.isfinite(each.hours.expected) for each in plan.shown)
    assert (none.best, none.compared) == (None, 0)
    assert "check cpus_per_rank" in none.reason


def test_clusters_that_cost_nothing_are_compared() -> None:
    types = [priced("ml.g5.xlarge", 0), priced("ml.c5.9xlarge", 1.836)]
    cheap = chosen(WORKLOAD, types)
    fast = chosen(WORKLOAD, types, order=PlanOrder.TIME)

    assert cheap.best is not None
    assert cheap.best.per_hour == 0
    assert [why_not(each, cheap.best) for each in cheap.shown] == [
        "recommended",
        "dearer and 76.6% faster per sample; a step waits for its accelerator",
    ]
    assert fast.reason.endswith("and a sample is not free any more")


def test_costs_are_step_times_price() -> None:
    best = chosen(WORKLOAD, [priced("ml.g5.16xlarge", 5.12)]).best
    assert best is not None
    assert best.per_epoch is not None
    assert best.total is not None
    assert best.hours is not None

    assert best.samples_per_step == 64
    assert best.steps_per_epoch == 1563
    assert best.per_step.expected == pytest.approx(5.12 / 3600 * 0.05)
    assert best.per_epoch.expected == pytest.approx(1563 * 5.12 / 3600 * 0.05)
    assert best.hours.expected == pytest.approx(15630 * 0.05 / 3600)
    assert best.total.expected == pytest.approx(best.hours.expected * 5.12)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)
    return tmp_path


def test_recommend_uses_the_catalogue_and_names_what_has_no_price(home) -> None:
    plan = recommend(WORKLOAD, today=TODAY)

    assert plan.best is not None
    assert plan.best.shape.train.instance.accelerator_name == "NVIDIA A10G"
    assert "ml.c5n.xlarge" in plan.without_price
    assert "ml.p5.48xlarge" in plan.without_time
    assert "ml.g5.xlarge" not in plan.without_price


def test_recommend_of_given_types_only(home) -> None:
    plan = recommend(WORKLOAD, gpu_types=["g5.8xlarge", "ml.g5.16xlarge"], today=TODAY)

    trainers = {each.shape.train.instance.name for each in plan.shown}
    assert trainers == {"ml.g5.8xlarge", "ml.g5.16xlarge"}


def test_recommend_with_an_old_price_says_so(home) -> None:
    a100 = replace(WORKLOAD, gpu_seconds_per_step={"NVIDIA A100": Measure.exact(0.05)})

    assert "* an old price" in repr(recommend(a100, today=TODAY))


def test_recommend_where_nothing_has_a_price(home) -> None:
    h100 = replace(WORKLOAD, gpu_seconds_per_step={"NVIDIA H100": Measure.exact(0.05)})
    plan = recommend(h100, today=TODAY)

    assert plan.best is None
    assert "run `launcher plan types --update`" in plan.reason


def test_recommend_refuses_what_is_no_region() -> None:
    """Prices of us-east-1 once stood for those of a mistyped region."""
    with pytest.raises(SpecError) as caught:
        recommend(WORKLOAD, regions=["us-esat-1", "eu-west-1"], today=TODAY)
    (problem,) = caught.value.problems
    assert (problem.where, problem.fix) == ("regions", "did you mean us-east-1?")


def test_recommend_in_another_region_says_whose_prices_they_are(home) -> None:
    shown = repr(recommend(WORKLOAD, regions=["eu-west-1"], today=TODAY))

    assert "Prices of us-east-1 stand for eu-west-1, which differ." in shown


def test_several_regions_are_compared_by_their_own_prices_only(home) -> None:
    (home / "prices.csv").write_text(
        "instance_type,price_per_hour,region\nml.g5.xlarge,1.2,eu-west-1\n"
    )
    plan = recommend(WORKLOAD, regions=["us-east-1", "eu-west-1"], today=TODAY)
    abroad = {each.shape.train.instance.name for each in plan.shown if each.region == "eu-west-1"}

    assert abroad == {"ml.g5.xlarge"}
    assert not any(each.shape.data for each in plan.shown if each.region == "eu-west-1")
    assert "ml.g5.2xlarge" in plan.without_own_price["eu-west-1"]
    assert "us-east-1" not in plan.without_own_price
    assert "No price of eu-west-1 itself, so not compared there: ml.g5.2xlarge" in repr(plan)
    assert "`launcher plan types --update --region eu-west-1` reads them." in repr(plan)
    assert "stand for" not in repr(plan)


def test_regions_without_any_price_of_their_own_are_not_compared(home) -> None:
    plan = recommend(WORKLOAD, regions=["eu-west-1", "eu-west-2"], today=TODAY)

    assert (plan.best, plan.compared) == (None, 0)
    assert "run `launcher plan types --update`" in plan.reason


def test_the_recommended_cluster_has_its_region_where_there_are_several(home) -> None:
    (home / "prices.csv").write_text(
        "instance_type,price_per_hour,region\nml.g5.16xlarge,1.2,eu-west-1\n"
    )
    both = ["us-east-1", "eu-west-1"]
    plan = recommend(WORKLOAD, gpu_types=["g5.16xlarge"], regions=both, today=TODAY)
    page, job = plan._repr_html_().replace(' style="text-align:left"', ""), home / "job.yaml"
    plan.write_job(job)
    none = recommend(
        WORKLOAD,
        gpu_types=["g5.16xlarge"],
        regions=both,
        limits=PlanLimits(max_cost_per_hour=0.1),
        today=TODAY,
    )

    assert repr(plan).startswith("Recommended: 1 x ml.g5.16xlarge in eu-west-1\n")
    assert "<strong>Recommended: 1 x ml.g5.16xlarge in eu-west-1</strong>" in page
    assert "<th>region</th>" in page
    assert "<td>eu-west-1</td>" in page
    assert "<title>1 x ml.g5.16xlarge in us-east-1: " in page
    assert job.read_text().startswith("# Planned for eu-west-1. ")
    assert "without them, 1 x ml.g5.16xlarge in eu-west-1 is the best" in none.reason


def test_types_of_the_catalogue_that_may_prepare_data() -> None:
    families = {family(each) for each in catalogue.instance_types().values() if can_prepare(each)}
    of_sagemaker = (name for name in catalogue.instance_types() if name.startswith("ml."))
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "planning.md").read_text()

    assert families == {name.split(".")[1] for name in of_sagemaker if name[3] in "cm"}
    assert {"c5", "c7i", "m7i-flex", "m8i", "m8i-flex"} <= families
    lists = re.findall(r"families\s\(([^)]*)\)\sand\sgeneral-purpose\sones\s\(([^)]*)\)", guide)
    assert sorted(re.split(r",\s", ", ".join(lists[0]))) == sorted(families)


def test_recommend_with_more_train_hosts(home) -> None:
    plan = recommend(WORKLOAD, gpu_types=["g5.xlarge"], train_hosts=[1, 2, 4], today=TODAY)

    assert {each.shape.train.count for each in plan.shown} == {1, 2, 4}
    assert "communication_seconds_per_step is 0" in repr(plan)


def test_measured_communication_is_not_said_to_be_assumed(home) -> None:
    timed = replace(WORKLOAD, communication_seconds_per_step=Measure.exact(0.01))
    several = recommend(timed, gpu_types=["g5.xlarge"], train_hosts=[1, 2], today=TODAY)
    one = recommend(WORKLOAD, gpu_types=["g5.xlarge"], today=TODAY)

    assert "communication_seconds_per_step" not in repr(several) + repr(one)


def test_a_bad_price_file_is_an_error(home) -> None:
    (home / "prices.csv").write_text("instance_type,price_per_hour\nml.g5.xlarge,cheap\n")

    with pytest.raises(SpecError, match="'cheap' is not a price"):
        recommend(WORKLOAD)


def test_train_types_without_a_price_are_named_before_data_types(home) -> None:
    l4 = {"NVIDIA A10G": Measure.exact(0.05), "NVIDIA L4": Measure.exact(0.06)}
    plan = recommend(replace(WORKLOAD, gpu_seconds_per_step=l4), today=TODAY)

    assert plan.without_price[0] == "ml.g6.xlarge"
    assert "Price unknown, so not compared: ml.g6.xlarge, ml.g6.2xlarge" in repr(plan)


def test_a_type_that_cannot_train_leaves_nothing_to_compare(home) -> None:
    plan = recommend(WORKLOAD, gpu_types=["p5.48xlarge"], today=TODAY)

    assert (plan.best, plan.compared, plan.without_time) == (None, 0, ("ml.p5.48xlarge",))
    assert plan.reason.startswith("nothing could be compared: no type has both a price and a time")


def test_memory_for_fewer_workers_than_vcpus_is_said() -> None:
    large = replace(WORKLOAD, bytes_per_worker=4.0 * 2**30)
    plan = chosen(large, [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)])

    assert (
        "Memory for fewer workers than vCPUs, of 4.00 GiB each: ml.c5.9xlarge (16 of 36), "
        "ml.g5.xlarge (2 of 3)." in repr(plan)
    )


def test_hosts_without_memory_for_a_worker_are_not_recommended(home) -> None:
    huge = replace(WORKLOAD, bytes_per_worker=40.0 * 2**30)
    types = [priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)]

    assert chosen(huge, types[:1]).best is None
    alone = recommend(replace(huge, bytes_per_worker=1e15), gpu_types=["g5.xlarge"])
    assert alone.without_room == ("ml.g5.xlarge",)
    assert "memory for a worker (bytes_per_worker)" in alone.reason
    plan = chosen(huge, types)
    assert plan.best is not None
    assert plan.best.step.offloaded == 1
    assert "preparing a sample may take" not in repr(plan)
