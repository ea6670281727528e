"""Advise changes to a job, each with its predicted cost and savings.

For a CPU bottleneck, the order is AWS's: first a type of the same family with more vCPU for each
GPU, and where the family has none, a data group. Cheaper preparation is named as the alternative.
Source: https://aws.amazon.com/blogs/machine-learning/improve-price-performance-of-your-model-training-using-amazon-sagemaker-heterogeneous-clusters/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from launcher.client import catalogue
from launcher.client.catalogue import InstanceType, Price
from launcher.client.planning.diagnosis.job_evidence import JobEvidence
from launcher.client.planning.diagnosis.observed_cluster import ObservedCluster, observe_cluster
from launcher.client.planning.plans.candidate_reasons import group_text
from launcher.client.planning.plans.cluster_candidates import (
    MOST_DATA_HOSTS,
    Candidate,
    can_prepare,
    priced_cluster,
    useful_clusters,
)
from launcher.client.planning.plans.recommendation import AS_GOOD
from launcher.client.planning.plans.step_model import GroupShape, Interval, family
from launcher.shared import Cause, Finding, GroupUse, StepLimit, data_hosts_idle, mends


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A planner's prediction for a changed cluster.

    per_hour_now, per_hour: USD of all hosts. step, price: the changes of a step's time and of its
    price, as shares: -0.46 is 46 % less. prices: where they are from, and how old they are.
    """

    per_hour_now: float
    per_hour: float
    step: Interval
    price: Interval
    prices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One change of a job. effect: None if the planner cannot predict it."""

    what: str
    effect: Effect | None = None


def advise(finding: Finding, evidence: JobEvidence) -> tuple[Advice, ...]:
    """Return the changes that the finding asks for, the first one first."""
    priced = _PRICED.get(finding.limit, lambda _: iter(()))
    return (*priced(evidence), *(Advice(what=each) for each in mends(finding, evidence)))


def larger_types(instance: InstanceType) -> list[InstanceType]:
    """Return the types of the same family and accelerators with more vCPU, the next one first.

    >>> [each.name for each in larger_types(catalogue.find("ml.g5.12xlarge"))]
    ['ml.g5.24xlarge']
    """
    found = (
        each
        for each in catalogue.instance_types().values()
        if each.name.startswith("ml.")
        and family(each) == family(instance)
        and each.accelerators == instance.accelerators
        and (each.vcpu or 0) > (instance.vcpu or 0)
    )
    return sorted(found, key=lambda each: each.vcpu or 0)


def _priced_input(evidence: JobEvidence) -> Iterator[Advice]:
    data, cluster = evidence.known_wait, observe_cluster(evidence)
    loads_itself = data is not None and data.bound is Cause.LOADING
    if data is not None and data.text and not loads_itself:
        yield Advice(what=data.text)
    if data_hosts_idle(evidence):
        return
    if evidence.feeds and (data is None or data.bound in (None, Cause.WORKERS)):
        yield _more_data_hosts(evidence.feeds, cluster)
    elif not evidence.feeds:
        if not loads_itself:  # ranks that load their data themselves leave other CPUs idle
            yield from _larger_type(evidence.train, cluster)
        yield _data_group(evidence, cluster)


def _larger_type(train: tuple[GroupUse, ...], cluster: ObservedCluster | None) -> Iterator[Advice]:
    """Yield the type of the same family that costs least per step, or that there is none."""
    for group in train:
        instance = catalogue.find(group.instance_type)
        if instance is None or not instance.accelerators:
            continue
        larger = larger_types(instance)
        if not larger:
            continue
        best, effect = larger[0], None
        if cluster is not None:
            compared = [each for type_ in larger for each in _with_type(cluster, type_)]
            if compared:
                cheapest = min(compared, key=lambda each: each.dollars_per_sample)
                best, effect = cheapest.shape.train.instance, effect_of(cluster, cheapest)
        yield Advice(
            what=f"train on {group.count} x {best.name} instead of {instance.name}: "
            f"{best.vcpu} instead of {instance.vcpu} vCPU for the same "
            f"{instance.accelerators} x {instance.accelerator_name}",
            effect=effect,
        )


def _with_type(cluster: ObservedCluster, instance: InstanceType) -> Iterator[Candidate]:
    price = catalogue.price_list().find(instance.name, cluster.region)
    if price is not None:
        train = GroupShape(instance=instance, count=cluster.train.count)
        yield priced_cluster(cluster.workload, cluster.region, train, price)


def _data_group(evidence: JobEvidence, cluster: ObservedCluster | None) -> Advice:
    """Return the advice to add a data group: the one that costs least per step."""
    if cluster is not None:
        compared = [
            each
            for instance in catalogue.instance_types().values()
            if instance.name.startswith("ml.") and can_prepare(instance)
            for each in _with_feed(cluster, instance, range(1, MOST_DATA_HOSTS + 1))
        ]
        best = min(compared, key=lambda each: each.dollars_per_sample, default=None)
        if best is not None and best.shape.data is not None:
            effect = effect_of(cluster, best)
            if effect.price.expected < 0:
                return Advice(
                    what=f"add a data group of {group_text(best.shape.data)}", effect=effect
                )
            return Advice(
                what="do not add a data group: the best one would cost more than it saves",
                effect=effect,
            )
    data = evidence.known_wait
    if data is not None and data.more and data.more > 0:
        return Advice(what=f"add a data group with about {data.more} vCPU")
    return Advice(what="add a data group, and follow its verdict: launcher status JOB")


def _more_data_hosts(feeds: tuple[GroupUse, ...], cluster: ObservedCluster | None) -> Advice:
    names = " and ".join(group.name for group in feeds)
    unknown = Advice(what=f"give {names} more vCPU: more hosts, or larger ones")
    if cluster is None or cluster.data is None:
        return unknown
    instance, count = cluster.data.instance, cluster.data.count
    more = range(count + 1, max(2 * count, count + MOST_DATA_HOSTS) + 1)
    compared = list(_with_feed(cluster, instance, more))
    if not compared:
        return unknown
    best = min(compared, key=lambda each: each.dollars_per_sample)
    effect = effect_of(cluster, best)
    if effect.step.expected > -AS_GOOD:  # what was measured is not what the planner predicts
        return unknown
    hosts = best.shape.data.count if best.shape.data else count
    return Advice(what=f"give {names} {hosts} x {instance.name} instead of {count}", effect=effect)


def _with_feed(
    cluster: ObservedCluster, instance: InstanceType, counts: Iterable[int]
) -> Iterator[Candidate]:
    """Yield the cluster with each number of data hosts that makes the step shorter."""
    price = catalogue.price_list().find(instance.name, cluster.region)
    if price is None:
        return
    shapes = (GroupShape(instance=instance, count=count) for count in counts)
    yield from useful_clusters(cluster.with_data(data, price) for data in shapes)


def effect_of(cluster: ObservedCluster, changed: Candidate) -> Effect:
    """Return how a changed cluster compares with the one that ran."""
    step = changed.step.seconds.times(1 / cluster.step_seconds)
    ratio = changed.per_hour / cluster.per_hour
    return _effect(
        cluster,
        changed.per_hour,
        step=_less_one(step),
        price=_less_one(step.times(ratio)),
        prices=(*cluster.now.prices, *changed.prices),
    )


def _effect(
    cluster: ObservedCluster,
    per_hour: float,
    *,
    step: Interval,
    price: Interval,
    prices: Sequence[Price],
) -> Effect:
    return Effect(
        per_hour_now=cluster.per_hour,
        per_hour=per_hour,
        step=step,
        price=price,
        prices=catalogue.price_sources(prices, cluster.region, cluster.today),
    )


def _less_one(ratio: Interval) -> Interval:
    return Interval(low=ratio.low - 1, expected=ratio.expected - 1, high=ratio.high - 1)


def _priced_compute(evidence: JobEvidence) -> Iterator[Advice]:
    data = evidence.known_wait
    if evidence.feeds and data is not None and data.more is not None and data.more < 0:
        yield _fewer_data_hosts(evidence, -data.more)


def _fewer_data_hosts(evidence: JobEvidence, surplus: int) -> Advice:
    feed = evidence.feeds[0]
    hosts = surplus // feed.vcpus if feed.vcpus else 0
    fewer = min(hosts, feed.count - 1)
    if fewer < 1:
        return Advice(
            what=f"{surplus} of {feed.name}'s vCPU are not needed: a smaller type will do"
        )
    what = f"give {feed.name} {feed.count - fewer} hosts instead of {feed.count}"
    return Advice(what=what, effect=_price_of_fewer(evidence, feed, fewer))


def _price_of_fewer(evidence: JobEvidence, feed: GroupUse, fewer: int) -> Effect | None:
    """Return what fewer data hosts cost; the step does not wait for them, and stays as it is."""
    cluster = observe_cluster(evidence)
    if cluster is None or cluster.data_price is None:
        return None
    per_hour = cluster.per_hour - fewer * cluster.data_price.per_hour
    same = Interval(low=0.0, expected=0.0, high=0.0)
    price = per_hour / cluster.per_hour - 1
    return _effect(
        cluster,
        per_hour,
        step=same,
        price=Interval(low=price, expected=price, high=price),
        prices=cluster.now.prices,
    )


_PRICED = {StepLimit.INPUT: _priced_input, StepLimit.COMPUTE: _priced_compute}
