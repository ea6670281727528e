"""The cluster that suits a workload best, and the reason."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from launcher.client import catalogue
from launcher.client.catalogue import CatalogueEntry, InstanceType, Price, check_regions, entries
from launcher.client.home import write_new
from launcher.client.planning.plans import candidate_reasons
from launcher.client.planning.plans.cluster_candidates import (
    Candidate,
    PricedType,
    can_prepare,
    can_train,
    candidates,
    has_batch_room,
    has_idle_vcpus,
    has_memory,
    train_group,
)
from launcher.client.planning.plans.step_model import local_workers
from launcher.client.planning.workloads.workload import Workload
from launcher.errors import Problem, SpecError

#: Clusters whose price or time per sample differs by less are as good, so the one with fewer hosts
#: is recommended: 12 large hosts instead of 47 small ones for a thousandth more.
AS_GOOD = 0.01


class PlanOrder(enum.Enum):
    """The quantity that the best cluster minimizes, per sample."""

    PRICE = "price"
    TIME = "time"


@dataclass(frozen=True, kw_only=True)
class PlanLimits:
    """Limits that a cluster keeps to; None is no limit.

    max_cost_per_hour: USD of all hosts. deadline_hours: for all epochs of the workload.
    """

    max_cost_per_hour: float | None = None
    deadline_hours: float | None = None


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The clusters that were compared for a workload, the best first.

    best: the one with the fewest hosts among those within AS_GOOD of the minimum; None if none
        keeps to the limits.
    shown: `best`, then the best of each pair of types, within the limits; by time, and none of them
        recommended, where no type that can train has a price.
    pareto: from the cheapest to the fastest, those that no other cluster is both cheaper and faster
        than, per sample and within the limits.
    compared: the number of clusters, with all counts of hosts.
    nearest: the best if the limits are ignored.
    without_price, without_time, without_memory, without_vcpus: types that could not be compared: no
        price, no time on their accelerator in the workload, too little memory for the model,
        however it is spread, or no vCPU that the ranks leave to prepare or receive batches.
    without_room: types of train hosts whose memory holds no worker.
    without_batches: types of train hosts whose memory, or that of their accelerators, holds no
        batch of each rank.
    without_exchange: the numbers of train hosts that are not recommended, because what they
        exchange in a step is unknown.
    regions: that were asked for.
    without_own_price: types that are not compared in one of several regions, by region: only the
        price of another one is known.
    """

    workload: Workload
    order: PlanOrder
    limits: PlanLimits
    best: Candidate | None
    shown: tuple[Candidate, ...]
    pareto: tuple[Candidate, ...]
    compared: int
    nearest: Candidate | None
    today: date
    regions: tuple[str, ...]
    without_price: tuple[str, ...] = ()
    without_time: tuple[str, ...] = ()
    without_memory: tuple[str, ...] = ()
    without_vcpus: tuple[str, ...] = ()
    without_room: tuple[str, ...] = ()
    without_batches: tuple[str, ...] = ()
    without_exchange: tuple[int, ...] = ()
    without_own_price: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def has_regions(self) -> bool:
        """True if clusters of several regions were asked for."""
        return len(self.regions) > 1

    def name(self, candidate: Candidate) -> str:
        """Return a cluster as text, with its region if several were asked for."""
        place = f" in {candidate.region}" if self.has_regions else ""
        return f"{candidate_reasons.cluster_text(candidate)}{place}"

    @property
    def answer(self) -> str:
        """The recommended cluster in a sentence."""
        best = self.best
        return f"Recommended: {self.name(best)}" if best else "No cluster is recommended"

    @property
    def alone(self) -> Candidate | None:
        """The best cluster without a data group."""
        return next((each for each in self.shown if each.shape.data is None), None)

    @property
    def reason(self) -> str:
        """The reason for the recommendation, in a sentence."""
        by_time = self.order is PlanOrder.TIME
        if self.nearest is None and self.shown:
            fix = catalogue.update_fix(self.regions[0])
            return f"no type that can train has a price, so clusters are shown by time alone; {fix}"
        if self.nearest is None:
            return candidate_reasons.why_not_compared(
                self.without_price or tuple(self.without_own_price),
                self.without_memory,
                self.without_vcpus,
                self.without_room,
                candidate_reasons.batch_shortage(self.workload, self.without_batches),
            )
        if self.best is None and self.nearest.step.exchange is None:
            return candidate_reasons.UNKNOWN_EXCHANGE
        if self.best is None:
            has_deadline = self.limits.deadline_hours is not None
            name = self.name(self.nearest)
            return candidate_reasons.why_none(self.nearest, name, has_deadline=has_deadline)
        if self.best.shape.data is None:
            with_data = self._same_train_hosts_with_data()
            return candidate_reasons.why_no_data_group(self.best, with_data, by_time=by_time)
        same = self._same_train_hosts()
        return candidate_reasons.why_data_group(self.best, same, self.alone, by_time=by_time)

    def _same_train_hosts(self) -> Candidate | None:
        """Return the best cluster's train hosts without a data group, if they were compared."""
        return next((each for each in self._beside_best() if each.shape.data is None), None)

    def _same_train_hosts_with_data(self) -> Candidate | None:
        """Return the best cluster's train hosts with the data group whose step is shortest."""
        with_data = (each for each in self._beside_best() if each.shape.data)
        return min(with_data, key=lambda each: each.step.expected, default=None)

    def _beside_best(self) -> Iterator[Candidate]:
        """Yield the clusters with the best one's train hosts, in its region."""
        best = self.best
        for each in self.shown:
            if best and (each.region, each.shape.train) == (best.region, best.shape.train):
                yield each

    def __repr__(self) -> str:
        from launcher.client.planning.plans.recommendation_layout import answer_text, cluster_table
        from launcher.client.show import table_text

        return f"{answer_text(self)}\n\n{table_text(cluster_table(self, 10))}"

    def _repr_html_(self) -> str:
        from launcher.client.planning.plans.recommendation_html import recommendation_html

        return recommendation_html(self)

    def write_html(self, path: Path) -> None:
        """Write the answer with its picture as a new page; raises PlatformError if it cannot be."""
        from launcher.client.planning.plans.recommendation_html import recommendation_page

        write_new(recommendation_page(self), path)

    def write_job(self, path: Path) -> None:
        """Write the recommended cluster as a job file; raises PlatformError or SpecError."""
        from launcher.client.planning.plans.job_file_writer import write_job_file

        write_job_file(self, path)


def recommend(
    workload: Workload,
    *,
    gpu_types: Sequence[str] = (),
    regions: Sequence[str] = ("us-east-1",),
    train_hosts: Sequence[int] = (1,),
    limits: PlanLimits | None = None,
    epochs: int | None = None,
    order: PlanOrder = PlanOrder.PRICE,
    today: date | None = None,
) -> Recommendation:
    """Compare all clusters of one and of two groups for a workload.

    gpu_types: types of train hosts; by default all whose accelerator the workload has a time for.
    regions: in one, a price of us-east-1 stands for an unknown one; in several, only prices of
        their own are compared.
    train_hosts: the numbers of train hosts that are tried.
    epochs: replaces that of the workload.
    order: what the best cluster minimizes, dollars or seconds per sample.

    Raises SpecError for bad files of prices, and for a name that is no region, or no type of train
    hosts.
    """
    check_regions(regions, "regions")
    changed = replace(workload, epochs=epochs) if epochs is not None else workload
    prices = catalogue.price_list()
    wanted = _wanted(gpu_types)
    listed = {
        region: [
            each
            for each in entries(prices, region)
            if not each.instance.accelerators or not wanted or each.instance.name in wanted
        ]
        for region in regions
    }
    has_stand_ins = len(listed) == 1
    priced = {
        region: [
            PricedType(instance=each.instance, price=each.price)
            for each in of_region
            if each.price and (has_stand_ins or each.price.is_of(region))
        ]
        for region, of_region in listed.items()
    }
    everything = [each for region in listed.values() for each in region]
    instances = [each.instance for each in everything]
    trainers = [each for each in instances if can_train(changed, each)]
    limits, day = limits or PlanLimits(), today or catalogue.today()

    def without(keeps: Callable[[InstanceType], bool]) -> tuple[str, ...]:
        return _names(each for each in trainers if not keeps(each))

    chosen = choose(candidates(changed, priced, train_hosts), changed, limits, order, day)
    if chosen.nearest is None:
        unpriced = {regions[0]: map(_unpriced, listed[regions[0]])}
        every = candidates(changed, unpriced, train_hosts)
        by_time = choose(every, changed, limits, PlanOrder.TIME, day)
        chosen = replace(by_time, best=None, pareto=(), nearest=None)
    return replace(
        chosen,
        without_price=_names(e.instance for e in _of_use(changed, everything) if e.price is None),
        without_time=_names(e for e in instances if e.accelerators and e not in trainers),
        without_memory=without(
            lambda each: any(has_memory(changed, each, count) for count in train_hosts)
        ),
        without_batches=without(lambda each: has_batch_room(changed, each)),
        without_vcpus=without(lambda each: has_idle_vcpus(changed, each)),
        without_room=without(lambda each: local_workers(changed, train_group(changed, each)) > 0),
        regions=tuple(listed),
        without_own_price={} if has_stand_ins else _without_own_price(changed, listed),
    )


def _wanted(names: Iterable[str]) -> set[str]:
    """Return types of train hosts, whose "ml." may be missing; raises SpecError for others."""
    given = {name: name if catalogue.find(name) else f"ml.{name}" for name in names}
    problems = [
        Problem(
            what=f"{name} has no accelerator to train on"
            if found
            else f"{name} is not in the catalogue",
            where="gpu_types",
            fix=f"did you mean {near[0]}?" if near else "`launcher plan types` has them all",
        )
        for name, full in given.items()
        for found in (catalogue.find(full),)
        if found is None or not found.accelerators
        for near in (() if found else catalogue.near(name),)
    ]
    if problems:
        raise SpecError(problems)
    return set(given.values())


def _unpriced(entry: CatalogueEntry) -> PricedType:
    """Return a type whose clusters have unknown costs, which are no numbers."""
    unknown = Price(instance_type=entry.instance.name, per_hour=math.nan)
    return PricedType(instance=entry.instance, price=unknown)


def _of_use(workload: Workload, listed: Iterable[CatalogueEntry]) -> list[CatalogueEntry]:
    """Return the types that can train or prepare; those that train come first."""
    return sorted(
        (e for e in listed if can_train(workload, e.instance) or can_prepare(e.instance)),
        key=lambda each: each.instance.accelerators == 0,
    )


def _without_own_price(
    workload: Workload, listed: Mapping[str, Sequence[CatalogueEntry]]
) -> dict[str, tuple[str, ...]]:
    """Return the types by region of which only the price of another region is known."""
    found = {
        region: _names(
            each.instance
            for each in _of_use(workload, of_region)
            if each.price and not each.price.is_of(region)
        )
        for region, of_region in listed.items()
    }
    return {region: names for region, names in found.items() if names}


def choose(
    compared: Iterable[Candidate],
    workload: Workload,
    limits: PlanLimits,
    order: PlanOrder,
    today: date,
) -> Recommendation:
    """Return the recommendation among candidates: the minimum of `order`, or one as good."""
    everything = sorted(compared, key=lambda each: _sort_key(each, order))
    known = [each for each in everything if each.step.exchange is not None]
    unknown = {each.shape.train.count for each in everything if each.step.exchange is None}
    allowed = [each for each in known if _keeps_to(each, limits)]
    best = _simplest(allowed, order)
    return Recommendation(
        workload=workload,
        order=order,
        limits=limits,
        best=best,
        shown=tuple(_best_of_each_pair([best, *allowed] if best else [])),
        pareto=tuple(_pareto(allowed)),
        compared=len(everything),
        nearest=next(iter([*known, *everything]), None),
        today=today,
        regions=tuple(dict.fromkeys(each.region for each in everything)),
        without_exchange=tuple(sorted(unknown)),
    )


def _objective_value(candidate: Candidate, order: PlanOrder) -> float:
    by_price = order is PlanOrder.PRICE
    return candidate.dollars_per_sample if by_price else candidate.seconds_per_sample


def _sort_key(candidate: Candidate, order: PlanOrder) -> tuple[float, int, float, str]:
    return (
        _objective_value(candidate, order),
        candidate.hosts,
        candidate.per_hour,
        candidate.shape.train.instance.name,
    )


def _simplest(ranked: Sequence[Candidate], order: PlanOrder) -> Candidate | None:
    """Return the candidate with the fewest hosts among those that are as good as the first."""
    if not ranked:
        return None
    enough = _objective_value(ranked[0], order) * (1 + AS_GOOD)
    near = [each for each in ranked if _objective_value(each, order) <= enough]
    return min(near, key=lambda each: each.hosts)  # of equal numbers the first, the best


def _keeps_to(candidate: Candidate, limits: PlanLimits) -> bool:
    most = limits.max_cost_per_hour
    if most is not None and not candidate.per_hour <= most:
        return False
    if limits.deadline_hours is None:
        return True
    return candidate.hours is not None and candidate.hours.expected <= limits.deadline_hours


def _best_of_each_pair(ranked: Iterable[Candidate]) -> Iterator[Candidate]:
    seen = set()
    for each in ranked:
        data = each.shape.data.instance.name if each.shape.data else None
        train = each.shape.train
        key = (each.region, train.instance.name, train.count, data)
        if key not in seen:
            seen.add(key)
            yield each


def _pareto(allowed: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates that none is both cheaper and faster than, from the cheapest on."""
    fastest = float("inf")
    by_price = sorted(allowed, key=lambda each: (each.dollars_per_sample, each.seconds_per_sample))
    for each in by_price:
        if each.seconds_per_sample < fastest:
            fastest = each.seconds_per_sample
            yield each


def _names(instances: Iterable[InstanceType]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in instances))
