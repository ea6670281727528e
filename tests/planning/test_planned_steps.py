"""The planned step is that of a simulation of the data service, which plays leases and links."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from launcher.client.planning import BatchTimes, estimate_step, stall_seconds

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from planner_parts.simulated_clusters import (
    MOST_RANKS,
    MOST_WORKERS,
    DrawnCluster,
    draw,
    large,
    simulated,
    turns,
)
from planner_parts.simulated_links import Clock, Links
from planner_parts.simulated_service import (
    SimulatedDataHost,
    SimulatedJob,
    SimulatedRun,
    SimulatedTrainHost,
    simulate,
)

AGREES = 0.05
FEW, MORE = (1, 7), (0, 2, 3, 4, 5, 6, *range(8, 18), 19)


def played(each: DrawnCluster, prefetch_bytes: int) -> SimulatedRun:
    job = simulated(each, prefetch_bytes)
    warm, steps = turns(job)
    return simulate(job, warm=warm, steps=steps, seed=1)


@pytest.mark.parametrize(
    "seed", [*FEW, *(pytest.param(seed, marks=pytest.mark.long) for seed in MORE)]
)
def test_a_planned_step_is_the_simulated_one(seed: int) -> None:
    each = draw(seed)
    planned = estimate_step(each.workload, each.shape)

    step = played(each, planned.prefetch.host_bytes).step_seconds
    assert planned.seconds.expected == pytest.approx(step, rel=AGREES)


@pytest.mark.long
def test_hosts_whose_network_is_as_slow_as_their_cpus_lose_a_tenth() -> None:
    """A worker holds two leases there: it sends one batch, and has none to prepare in its place."""
    each = draw(18)
    planned = estimate_step(each.workload, each.shape)

    step = played(each, planned.prefetch.host_bytes).step_seconds
    assert 1.05 < step / planned.seconds.expected < 1.15


@pytest.mark.long
def test_200_data_workers_and_64_ranks() -> None:
    """With skewed samples, and a fifth of the data hosts at half speed."""
    each = large()
    job = simulated(each, 1 << 30)
    assert sum(host.workers for host in job.data_hosts) == MOST_WORKERS
    assert (job.ranks, job.deviation > 0, min(each.speeds)) == (MOST_RANKS, True, 0.5)
    planned = estimate_step(each.workload, each.shape)

    step = played(each, planned.prefetch.host_bytes).step_seconds
    assert planned.seconds.expected == pytest.approx(step, rel=AGREES)


def data_group(ahead: int, *, batch_bytes: int = 1 << 20) -> SimulatedJob:
    """Two ranks on one host, fed by 16 workers, which takes so many batches ahead of each."""
    return SimulatedJob(
        data_hosts=(SimulatedDataHost(workers=4, rate=1.25e9),) * 4,
        train_hosts=(SimulatedTrainHost(ranks=2, rate=12.5e9),),
        batch_size=1,
        sample_seconds=0.2,
        batch_bytes=batch_bytes - 2,  # with its marks, a whole slab
        train_seconds=0.001,
        prefetch_bytes=2 * ahead * batch_bytes,
    )


@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_few_batches_ahead_leave_workers_idle(ahead: int) -> None:
    """Eight workers for each rank, of which only as many work as there are batches ahead."""
    step = simulate(data_group(ahead), warm=20, steps=80, seed=1).step_seconds

    assert step == pytest.approx(0.2 / ahead, rel=AGREES)


def test_enough_batches_ahead_keep_all_workers_busy() -> None:
    step = simulate(data_group(24), warm=40, steps=160, seed=1).step_seconds

    assert step == pytest.approx(2 * 0.2 / 16, rel=AGREES)


@pytest.mark.long
@pytest.mark.parametrize(
    ("ranks", "variation", "ahead"), [(2, 2.0, 32), (1, 1.0, 48)], ids=["skewed", "less-skewed"]
)
def test_batches_that_take_long_stop_the_training(ranks: int, variation: float, ahead: int) -> None:
    """A third to a half of the time, which 6,000 batches give to a tenth."""
    workers, seconds, size = 32, 0.5, 8
    job = SimulatedJob(
        data_hosts=(SimulatedDataHost(workers=workers // 4, rate=1.25e9),) * 4,
        train_hosts=(SimulatedTrainHost(ranks=ranks, rate=12.5e9),),
        batch_size=size,
        sample_seconds=seconds / size,
        deviation=variation * seconds / size,
        batch_bytes=1e5,
        train_seconds=0.001,
        prefetch_bytes=ahead * ranks * (128 << 10),
    )
    step = seconds * ranks / workers
    times = BatchTimes(mean=seconds, samples=size, variation=variation)
    stall = stall_seconds(times, ranks, step, ahead)

    found = simulate(job, warm=60, steps=6000 // ranks, seed=1).step_seconds
    assert stall > step / 3
    assert step + stall == pytest.approx(found, rel=0.1)


def test_samples_that_are_alike_stop_nothing() -> None:
    assert stall_seconds(BatchTimes(mean=10.0), ranks=8, step=0.1, ahead=1) == 0
    assert stall_seconds(BatchTimes(mean=1.0, variation=2.0), 8, math.inf, 1) == 0


@pytest.mark.parametrize("seconds", [2, 3, 4, 6])
def test_few_batches_take_several_times_as_long(seconds: float) -> None:
    """Of 32 samples with twice their mean as deviation, drawn 400,000 times."""
    drawn = {2: 1.60e-2, 3: 1.82e-3, 4: 3.87e-4, 6: 6.25e-5}
    times = BatchTimes(mean=1.0, samples=32, variation=2.0)

    assert times.probability_longer(seconds) == pytest.approx(drawn[int(seconds)], rel=0.25)


def arrivals(sizes: dict[str, float], rates: dict[str, float], limit: float) -> dict[str, float]:
    """When transfers of so many bytes from each host to "train" have arrived."""
    clock, done = Clock(), dict.fromkeys(sizes, math.nan)
    links = Links(clock, rates)

    def end(host: str) -> None:
        done[host] = clock.now

    for host, size in sizes.items():
        links.transfer(size, (host, "train"), limit, lambda host=host: end(host))
    clock.run_until(lambda: not any(map(math.isnan, done.values())))
    return done


def test_transfers_share_a_link() -> None:
    """Two share the receiver's link until the shorter one has ended."""
    found = arrivals({"a": 100, "b": 200}, {"a": 1e9, "b": 1e9, "train": 100}, math.inf)

    assert found == pytest.approx({"a": 2.0, "b": 3.0}, rel=1e-3)


def test_a_slow_sender_leaves_the_rest_to_others() -> None:
    found = arrivals({"a": 20, "b": 160}, {"a": 10, "b": 1e9, "train": 90}, math.inf)

    assert found == pytest.approx({"a": 2.0, "b": 2.0}, rel=1e-3)


def test_links_without_limits_take_no_time() -> None:
    found = arrivals({"a": 1e6}, {"a": math.inf, "train": math.inf}, math.inf)

    assert found == pytest.approx({"a": 0.0}, abs=1e-5)


def test_a_flow_has_a_limit_of_its_own() -> None:
    found = arrivals({"a": 100}, {"a": 1e9, "train": 1e9}, 50)

    assert found == pytest.approx({"a": 2.0}, rel=1e-3)
