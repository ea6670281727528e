"""The recommended cluster: equal to brute force, monotone, within limits, with a reason."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

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
    ModelFigures,
    PlanLimits,
    PlanOrder,
    PricedType,
    Recommendation,
    Workload,
    can_prepare,
    candidates,
    choose,
    family,
    plain_recommendation,
    priced_cluster,
    recommend,
    recommendation_scatter,
    vcpu_speed,
)
from launcher.errors import SpecError
from launcher.shared import Footprint

TODAY = date(2026, 11, 26)
TRAINERS = ("ml.g5.xlarge", "ml.g5.12xlarge", "ml.g4dn.8xlarge", "ml.p4d.24xlarge", "ml.p3.2xlarge")
FEEDERS = ("ml.c5.xlarge", "ml.c5.9xlarge", "ml.c5n.18xlarge", "ml.m5.2xlarge")
ACCELERATORS = ("NVIDIA A10G", "NVIDIA T4", "NVIDIA A100", "NVIDIA V100")
TRAIN_HOSTS = (1, 3)
WORKLOAD = Workload(
    batch_size=64,
    cpu_seconds_per_batch=Measure.exact(0),
    start_seconds=Measure.exact(0),
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
        cpu_seconds_per_batch=Measure.exact(0),
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
    speed = vcpu_speed(workload, host)
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
        other = vcpu_speed(workload, feeder)
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
    """Workers of a host: more than vCPUs while these have time left, if the memory holds them."""
    cpu, wait = workload.cpu_seconds_per_sample.mean, workload.wait_seconds_per_sample.mean
    assert host.memory_gib is not None
    each = next(n for n in range(1, 9) if n == 8 or n * cpu >= cpu + wait)
    workers = 0
    room = host.memory_gib * 2**30 * share
    memory = max(workload.bytes_per_worker, workload.bytes_per_batch)
    while workers < each * vcpus and (workers + 1) * memory <= room:
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
    assert plan.best.step.expected == pytest.approx(0.0234, abs=1e-4)
    assert plan.best.step.bottleneck is Bottleneck.ACCELERATOR
    of_pair = [
        each
        for each in every_cluster(uneven, types)
        if each.shape.data
        and each.shape.data.instance == plan.best.shape.data.instance
        and each.shape.train == plan.best.shape.train
    ]
    assert of_pair[0].step.bottleneck is Bottleneck.ACCELERATOR
    assert of_pair[0].step.stall == pytest.approx(0.0329, abs=1e-4)


SEEDS = st.integers(0, 10**6)
FACTORS = st.floats(1, 100)


@given(seed=SEEDS, factor=FACTORS)
@settings(max_examples=100)
def test_a_faster_cpu_makes_the_best_cluster_no_dearer(seed: int, factor: float) -> None:
    """For skewed samples but for what counts as as good, and the waits that a prefetch leaves."""
    price, allowed = PlanOrder.PRICE, (1 + AS_GOOD) * (1 + FEW_STALLS)
    for made, more in ((made_up(seed), 1e-9), (skewed(seed), FEW_STALLS)):
        workload, types = made
        cpu = workload.cpu_seconds_per_sample
        quick = replace(Measure.exact(cpu.mean / factor), deviation=cpu.deviation / factor)
        faster = replace(workload, cpu_seconds_per_sample=quick)
        before = chosen(workload, types, train_hosts=TRAIN_HOSTS)
        after = chosen(faster, types, train_hosts=TRAIN_HOSTS)

        assert amount_of(after.nearest, price) <= amount_of(before.nearest, price) * (1 + more)
        assert amount_of(after.best, price) <= amount_of(before.best, price) * allowed


@pytest.mark.long
@given(seed=SEEDS, factor=FACTORS, left_out=st.integers(0, 3))
@settings(max_examples=100)
def test_smaller_batches_and_more_types_never_make_it_dearer(
    seed: int, factor: float, left_out: int
) -> None:
    workload, types = made_up(seed)
    smaller = replace(workload, bytes_per_batch=workload.bytes_per_batch / factor)
    fewer = types[:left_out] + types[left_out + 1 :]
    plan, small, few = chosen(workload, types), chosen(smaller, types), chosen(workload, fewer)

    least = amount_of(plan.nearest, PlanOrder.PRICE)
    assert amount_of(small.nearest, PlanOrder.PRICE) <= least * (1 + 1e-9)
    assert least <= amount_of(few.nearest, PlanOrder.PRICE)


@given(seed=SEEDS, limit=st.floats(0.1, 100), more=st.floats(0, 100))
@settings(max_examples=100)
def test_a_higher_limit_never_makes_it_dearer(seed: int, limit: float, more: float) -> None:
    workload, types = made_up(seed)
    before = chosen(workload, types, PlanLimits(max_cost_per_hour=limit)).shown
    after = chosen(workload, types, PlanLimits(max_cost_per_hour=limit + more)).shown

    if before:
        least = [min(each.dollars_per_sample for each in found) for found in (before, after)]
        assert least[1] <= least[0]
    assert all(each.per_hour <= limit for each in before)


@given(seed=SEEDS)
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
    names = [name for name in catalogue.instance_types() if not name.startswith("ml.g5.")]
    types = [priced(name, 1.0) for name in ("ml.g5.12xlarge", "ml.g5.24xlarge", *names)]
    light = changed(cpu_seconds_per_sample=Measure.exact(0.5), bytes_per_batch=1e3)
    plan = chosen(light, types, train_hosts=(1, 2))

    assert plan.compared > 10_000
    assert plan.best is not None


def changed(**changes: Any) -> Workload:
    return replace(WORKLOAD, **changes)


G5, C5_9 = priced("ml.g5.xlarge", 1.408), priced("ml.c5.9xlarge", 1.836)


def test_fewer_hosts_are_recommended_where_they_are_as_good() -> None:
    small, large = priced("ml.c5.xlarge", 0.204), priced("ml.c5.9xlarge", 0.204 * 9.03)
    plan = chosen(changed(cpu_seconds_per_sample=Measure.exact(0.03)), [G5, small, large])

    assert plan.nearest is not None
    assert plan.best is not None
    assert plan.nearest.shape.data is not None
    assert plan.best.hosts <= plan.nearest.hosts


def test_a_deadline_buys_a_faster_cluster() -> None:
    types = [G5, priced("ml.c5.9xlarge", 50.0)]
    slow = chosen(WORKLOAD, types).best
    assert slow is not None
    assert slow.hours is not None
    fast = chosen(WORKLOAD, types, PlanLimits(deadline_hours=slow.hours.expected / 2)).best

    assert slow.shape.data is None
    assert fast is not None
    assert fast.shape.data is not None


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


def test_a_short_job_costs_what_its_start_costs() -> None:
    """Ten hosts train for a tenth of the time, and are billed ten times for their start."""
    starts = changed(
        start_seconds=Measure(mean=200, low=100, high=400),
        communication_seconds_per_step=Measure.exact(0),
        samples_per_epoch=64 * 600,
        epochs=1,
    )
    types = [priced("ml.g5.16xlarge", 5.12)]
    plan = chosen(starts, types, train_hosts=(1, 10))
    fast = chosen(starts, types, order=PlanOrder.TIME, train_hosts=(1, 10)).best

    assert plan.best is not None
    assert fast is not None
    assert plan.best.shape.train.count == 1
    assert fast.shape.train.count == 10
    assert plan.best.total is not None
    assert plan.best.total.expected == pytest.approx(5.12 / 3600 * (200 + 600 * 0.05))
    assert fast.hours is not None
    seconds = (fast.hours.low, fast.hours.expected, fast.hours.high)
    assert seconds == pytest.approx(tuple((start + 3) / 3600 for start in (100, 200, 400)))
    assert fast.dollars_per_sample > 6 * plan.best.dollars_per_sample


@pytest.fixture
def home(packaged_prices: Path) -> Path:
    return packaged_prices


def on(accelerator: str) -> dict[str, Any]:
    return {"gpu_seconds_per_step": {accelerator: Measure.exact(0.05)}}


SMALL, TWO = {"gpu_types": ["g5.xlarge"]}, {"gpu_types": ["g5.xlarge"], "train_hosts": [1, 2]}
GREEDY, COMMUNICATION = {"cpus_per_rank": 4}, "communication_seconds_per_step"
TIMED = {COMMUNICATION: Measure.exact(0.01)}
TWO_GPUS = {
    "gpu_seconds_per_step": dict.fromkeys(["NVIDIA A10G", "NVIDIA L4"], Measure.exact(0.05))
}
MODEL = ModelFigures(footprint=Footprint(parameters=10**8, gradients=10**8, states=10**8))
UPDATE = "`launcher plan types --update --region"


BY_TIME = ["shown by time alone", "1 x ml.p5e.48xlarge", " unknown ", "Price unknown: ml.p5e.48xl"]


@pytest.mark.parametrize(
    ("changes", "asked", "said", "unsaid"),
    [
        (on("NVIDIA H200"), {}, [UPDATE, "No cluster is recommended", *BY_TIME], ""),
        (
            {},
            {"regions": ["eu-west-1"]},
            ["us-east-1 on-demand", "; eu-west-1 differs; storage"],
            "",
        ),
        ({}, {"regions": ["eu-west-1", "eu-west-2"]}, [BY_TIME[0], UPDATE], ""),
        ({}, TWO, ["More than one train host is not recommended", COMMUNICATION], "2 x ml.g5"),
        ({}, SMALL | {"train_hosts": [2]}, ["No cluster is recommended", "is unknown; give"], ""),
        ({"model": MODEL}, TWO, ["is computed, not measured"], "unknown; give"),
        (
            *({"bytes_per_batch": 4e10}, SMALL, ["No cluster is recommended"]),
            "Recommended",
        ),
        (TIMED, TWO, [], COMMUNICATION),
        ({}, SMALL, [], COMMUNICATION),
        (
            TWO_GPUS,
            {},
            ["Price unknown, so not compared: ml.c4.xlarge", "one public copy alone"],
            "",
        ),
        ({}, {"gpu_types": ["p5.48xlarge"]}, ["no type has both", ": ml.p5.48xlarge."], ""),
        (
            *(GREEDY, {"gpu_types": ["g5.xlarge", "g5.2xlarge"]}),
            *(
                ["No vCPU left by the ranks to prepare or receive: ml.g5.xlarge."],
                "1 x ml.g5.xlarge",
            ),
        ),
        (GREEDY, SMALL, ["check cpus_per_rank", "0 clusters compared"], ""),
        (GREEDY | {"workers_per_rank": 2}, SMALL, ["1 x ml.g5.xlarge"], "No vCPU left"),
        ({"bytes_per_worker": 1e15}, SMALL, ["memory for a worker (bytes_per_worker)"], ""),
    ],
)
def test_a_plan_of_the_catalogue_says_what_it_rests_on(
    home: Path, changes: dict[str, Any], asked: dict[str, Any], said: list[str], unsaid: str
) -> None:
    shown = repr(recommend(changed(**changes), **asked, today=TODAY))

    assert [words for words in said if words not in shown] == []
    assert not unsaid or unsaid not in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("g5.xlrge", "g5.xlrge is not in the catalogue.*did you mean ml.g5.xlarge"),
        ("ml.c5.xlarge", "ml.c5.xlarge has no accelerator to train on"),
    ],
)
def test_no_type_of_train_hosts_is_refused(name: str, said: str) -> None:
    with pytest.raises(SpecError, match=re.compile(said, re.DOTALL)):
        recommend(WORKLOAD, gpu_types=["g5.xlarge", name])


def test_without_prices_the_fastest_is_first_and_costs_are_null(home: Path) -> None:
    plan = plain_recommendation(recommend(changed(**on("NVIDIA H200")), today=TODAY), 3)
    steps = [each["step_seconds"]["expected"] for each in plan["clusters"]]

    assert (plan["recommended"], plan["sorted_by"], plan["pareto"]) == (None, "time", [])
    assert steps == sorted(steps)
    costs = ("per_hour", "per_step", "per_epoch", "total")
    assert {each[cost] for each in plan["clusters"] for cost in costs} == {None}
    json.dumps(plan, allow_nan=False)


def test_the_nearest_cheaper_and_faster_clusters_are_named_with_their_trade() -> None:
    types = [priced("ml.g5.xlarge", 1.0), priced("ml.g5.12xlarge", 6.0), priced("ml.g5.2xlarge", 2)]
    light = replace(WORKLOAD, cpu_seconds_per_sample=Measure.exact(0.0001))
    by_price, by_time = (chosen(light, types, order=order) for order in PlanOrder)

    assert "faster: 1 x ml.g5.12xlarge, 50% more money for 4 times less time" in repr(by_price)
    assert "cheaper: 1 x ml.g5.xlarge, 33% less money for 4 times more time" in repr(by_time)
    assert "ml.g5.2xlarge" not in repr(by_price)


def test_decoding_on_the_gpu_costs_what_the_data_group_does_where_it_is_said_to() -> None:
    best = chosen(WORKLOAD, [G5, C5_9])
    found = re.search(r"cheaper if a GPU takes less than ([\d.]+) ms a sample", repr(best))
    assert found
    assert best.best
    assert best.best.shape.data
    seconds = float(found[1]) / 1000 * WORKLOAD.batch_size
    steps = WORKLOAD.gpu_seconds_per_step
    decoding = changed(
        cpu_seconds_per_sample=Measure.exact(1e-5),
        gpu_seconds_per_step={name: Measure.exact(s.mean + seconds) for name, s in steps.items()},
    )
    alone = chosen(decoding, [G5]).best
    assert alone
    assert alone.dollars_per_sample == pytest.approx(best.best.dollars_per_sample, rel=0.01)


HEAVY = {"cpu_seconds_per_sample": Measure.exact(0.1)}


def test_of_equal_clusters_one_is_shown() -> None:
    types = [G5, priced("ml.c5.xlarge", 1), priced("ml.c5.2xlarge", 2)]
    heavy = changed(cpu_seconds_per_sample=Measure.exact(0.03), bytes_per_batch=1e3)
    rows = [line for line in repr(chosen(heavy, types)).splitlines() if line.startswith("1 x ml.")]

    assert "ml.c5.2xlarge" in rows[0]
    assert len({tuple(row.split()[-4:]) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({}, "prepare them once and store 1.46 GiB", id="prepared once"),
        pytest.param({"epochs": 1}, None, id="one epoch"),
        pytest.param({"cpu_seconds_per_sample": Measure.exact(0.001)}, None, id="light"),
        pytest.param(
            {"bytes_per_batch": 4e8, "epochs": 1, **HEAVY},
            "send uint8, a quarter of their bytes",
            id="bytes",
        ),
    ],
)
def test_ways_that_are_no_clusters_are_named_where_they_win(
    changes: dict[str, Any], said: str | None
) -> None:
    shown = repr(chosen(changed(**changes), [G5, C5_9]))
    found = [line for line in shown.splitlines() if line.strip().startswith("if ")]

    assert [said] * len(found) == [said for line in found if said and said in line]
    assert bool(found) == bool(said)


def test_types_are_those_with_a_time_and_a_price_or_the_given_ones(home: Path) -> None:
    plan = recommend(WORKLOAD, today=TODAY)
    given = recommend(WORKLOAD, gpu_types=["g5.8xlarge", "ml.g5.16xlarge"], today=TODAY)
    told = replace(WORKLOAD, communication_seconds_per_step=Measure.exact(0))
    several = recommend(told, gpu_types=["g5.xlarge"], train_hosts=[1, 2, 4], today=TODAY)

    assert plan.best is not None
    assert plan.best.shape.train.instance.accelerator_name == "NVIDIA A10G"
    assert "ml.c5n.xlarge" in plan.without_price
    assert "ml.p5.48xlarge" in plan.without_time
    assert "ml.g5.xlarge" not in plan.without_price
    trainers = {each.shape.train.instance.name for each in given.shown}
    assert trainers == {"ml.g5.8xlarge", "ml.g5.16xlarge"}
    assert {each.shape.train.count for each in several.shown} == {1, 2, 4}


def test_bad_regions_and_prices_are_refused(home: Path) -> None:
    """Prices of us-east-1 once stood for those of a mistyped region."""
    with pytest.raises(SpecError) as caught:
        recommend(WORKLOAD, regions=["us-esat-1", "eu-west-1"], today=TODAY)
    (problem,) = caught.value.problems
    assert (problem.where, problem.fix) == ("regions", "did you mean us-east-1?")

    (home / "prices.csv").write_text("instance_type,price_per_hour\nml.g5.xlarge,cheap\n")
    with pytest.raises(SpecError, match="'cheap' is not a price"):
        recommend(WORKLOAD)


def test_several_regions_are_compared_by_their_own_prices_only(home: Path) -> None:
    (home / "prices.csv").write_text(
        "instance_type,price_per_hour,region\nml.g5.xlarge,1.2,eu-west-1\n"
    )
    plan = recommend(WORKLOAD, regions=["us-east-1", "eu-west-1"], today=TODAY)
    abroad = [each.shape for each in plan.shown if each.region == "eu-west-1"]

    assert {each.train.instance.name for each in abroad} == {"ml.g5.xlarge"}
    assert not any(each.data for each in abroad)
    assert "ml.g5.2xlarge" in plan.without_own_price["eu-west-1"]
    assert "us-east-1" not in plan.without_own_price
    assert "No price of eu-west-1 itself, so not compared there: ml.g5.2xlarge" in repr(plan)
    assert "`launcher plan types --update --region eu-west-1` reads them." in repr(plan)
    assert "stand for" not in repr(plan)


def test_the_recommended_cluster_has_its_region_where_there_are_several(home: Path) -> None:
    (home / "prices.csv").write_text(
        "instance_type,price_per_hour,region\nml.g5.16xlarge,1.2,eu-west-1\n"
    )
    asked = {"gpu_types": ["g5.16xlarge"], "regions": ["us-east-1", "eu-west-1"], "today": TODAY}
    plan = recommend(WORKLOAD, **asked)
    none = recommend(WORKLOAD, limits=PlanLimits(max_cost_per_hour=0.1), **asked)
    page, job = plan._repr_html_().replace(' style="text-align:left"', ""), home / "job.yaml"
    plan.write_job(job)

    assert repr(plan).startswith("Recommended: 1 x ml.g5.16xlarge in eu-west-1\n")
    assert "<strong>Recommended: 1 x ml.g5.16xlarge in eu-west-1</strong>" in page
    assert "<th>region</th>" in page
    assert "<td>eu-west-1</td>" in page
    dots = recommendation_scatter(plan)
    assert dots is not None
    assert {each.name.rpartition(" in ")[2] for each in dots.points} == {"us-east-1", "eu-west-1"}
    assert job.read_text().startswith("# Planned for eu-west-1. ")
    assert "without them, 1 x ml.g5.16xlarge in eu-west-1 is the best" in none.reason


def test_types_of_the_catalogue_that_may_prepare_data() -> None:
    families = {family(each) for each in catalogue.instance_types().values() if can_prepare(each)}
    of_sagemaker = (name for name in catalogue.instance_types() if name.startswith("ml."))
    guide = (Path(__file__).parents[2] / "docs" / "reference" / "planner.md").read_text()

    assert families == {name.split(".")[1] for name in of_sagemaker if name[3] in "cm"}
    assert {"c5", "c7i", "m7i-flex", "m8i", "m8i-flex"} <= families
    lists = re.findall(r"families\s\(([^)]*)\)\sand\sgeneral-purpose\sones\s\(([^)]*)\)", guide)
    assert sorted(re.split(r",\s", ", ".join(lists[0]))) == sorted(families)
