"""Other ways than a cluster, weighed by the same arithmetic: store what is prepared, send less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from launcher.client.catalogue import dollars_text
from launcher.client.planning.plans.amounts import Measure
from launcher.client.planning.plans.candidate_reasons import WORTHWHILE, cluster_text
from launcher.client.planning.plans.cluster_candidates import Candidate, priced_cluster
from launcher.client.planning.plans.step_model import SECONDS_PER_GB, vcpu_speed
from launcher.shared import bytes_text

_HOUR = 3600


def alternatives(best: Candidate, compared: Iterable[Candidate]) -> Iterator[str]:
    """Yield each way that costs less than the best cluster and is no slower, with what it costs.

    compared: clusters, of whose vCPUs the cheapest prepares what is stored.
    """
    yield from _stored(best, compared)
    yield from _as_uint8(best, compared)


def _stored(best: Candidate, compared: Iterable[Candidate]) -> Iterator[str]:
    load, now = best.workload, best.total
    if now is None or load.samples_per_epoch is None or (load.epochs or 0) < 2:
        return
    groups = {
        group.instance: price.per_hour
        for each in (best, *compared)
        for group, price in zip((each.shape.train, each.shape.data), each.prices, strict=False)
        if group
    }
    seconds = load.samples_per_epoch * load.cpu_seconds_per_sample.mean
    needs = {each: seconds / vcpu_speed(load, each) / _HOUR for each in groups}
    cheapest = min(groups, key=lambda each: groups[each] / (each.vcpu or 1) * needs[each])
    once = groups[cheapest] / (cheapest.vcpu or 1) * needs[cheapest]
    sample = load.bytes_per_batch / load.batch_size
    copied = replace(
        load,
        cpu_seconds_per_sample=Measure.exact(sample / 1e9 * SECONDS_PER_GB),
        wait_seconds_per_sample=Measure.exact(0.0),
    )
    train, price = best.shape.train, best.prices[0]
    then = priced_cluster(copied, best.region, train, price)
    if then.total is None or _is_slower(then, best):
        return
    if once + then.total.expected >= now.expected * (1 - WORTHWHILE):
        return
    size = bytes_text(round(sample * load.samples_per_epoch))
    yield (
        f"if samples are the same in every epoch, prepare them once and store {size}: "
        f"{needs[cheapest]:,.3g} vCPU hours of {cheapest.name} ({dollars_text(once)}), then "
        f"{cluster_text(then)} for {dollars_text(then.total.expected)}, instead of "
        f"{dollars_text(now.expected)}; storage and reading it are not included"
    )


def _as_uint8(best: Candidate, compared: Iterable[Candidate]) -> Iterator[str]:
    small = replace(best.workload, bytes_per_batch=best.workload.bytes_per_batch / 4)
    found = [
        priced_cluster(
            small, each.region, each.shape.train, each.prices[0], each.shape.data, each.prices[-1]
        )
        for each in (best, *compared)
        if each.region == best.region
    ]
    ways = [each for each in found if not _is_slower(each, best)]
    then = min(ways, key=lambda each: each.dollars_per_sample, default=best)
    if then.dollars_per_sample < best.dollars_per_sample * (1 - WORTHWHILE):
        less = 1 - then.dollars_per_sample / best.dollars_per_sample
        yield (
            "if batches are float32, send uint8, a quarter of their bytes: with "
            f"{cluster_text(then)} a sample costs {less:.0%} less"
        )


def _is_slower(other: Candidate, best: Candidate) -> bool:
    return other.seconds_per_sample > best.seconds_per_sample * (1 + WORTHWHILE)
