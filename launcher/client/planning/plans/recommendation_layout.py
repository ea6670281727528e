"""A recommendation as text and as plain values: the answer, the clusters, and their numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from launcher.client.catalogue import (
    OLD_MARK,
    Price,
    cpu_speeds,
    dollars_text,
    price_sources,
)
from launcher.client.planning.plans.alternatives import alternatives
from launcher.client.planning.plans.candidate_explanation import (
    UNKNOWN,
    explanation,
    strategy_text,
    strategy_warnings,
    unmeasured_families,
)
from launcher.client.planning.plans.candidate_reasons import (
    UNKNOWN_EXCHANGE,
    batch_shortage,
    break_even,
    listed,
    trades,
    why_not,
)
from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.planning.plans.step_model import (
    MOST_WORKERS_PER_VCPU,
    GroupShape,
    Interval,
    data_workers,
    local_vcpus,
    local_workers,
)
from launcher.client.planning.workloads.workload import START_SECONDS, Workload
from launcher.client.show import Table
from launcher.shared import bytes_text

if TYPE_CHECKING:
    from launcher.client.planning.plans.recommendation import Recommendation


_HEAD: tuple[str, ...] = (
    "train",
    "data",
    "step ms",
    "bottleneck",
    "GPU",
    "$/h",
    "$/1k steps",
    "$/epoch",
    "total $",
    "hours",
)
_NUMERIC = frozenset(_HEAD) - {"train", "data", "bottleneck"}


#: Columns that a narrow terminal has last.
_LEAST = ("$/1k steps", "GPU", "$/epoch", "bottleneck", "$/h")


def answer_text(recommendation: Recommendation) -> str:
    """Return the answer, and what speaks for it below."""
    return "\n  ".join(recommendation_lines(recommendation))


def recommendation_lines(recommendation: Recommendation) -> list[str]:
    """Return the answer, its reason, the trades of the best cluster, and its strategy."""
    best = recommendation.best
    lines = [recommendation.answer, recommendation.reason]
    if best and (needed := break_even(best)):
        lines.append(needed)
    if best:
        lines += trades(best, recommendation.pareto)
        lines += alternatives(best, recommendation.shown)
    if best and best.strategy:
        lines += [strategy_text(best), *strategy_warnings(best)]
    return lines


def cluster_table(recommendation: Recommendation, limit: int) -> Table:
    """Return the best clusters and the notes; with several regions, the first column names them."""
    shown = shown_clusters(recommendation, limit)
    rows = [_row(each, recommendation) for each in shown]
    columns = _HEAD
    if recommendation.has_regions:
        columns = ("region", *columns)
        rows = [(each.region, *row) for each, row in zip(shown, rows, strict=True)]
    below = [("", note) for note in notes(recommendation)]
    return Table(columns=columns, rows=rows, numbers=_NUMERIC, notes=below, least=_LEAST)


def shown_clusters(recommendation: Recommendation, limit: int) -> list[Candidate]:
    """Return the best clusters, and the best one without a data group if it is not among them.

    One than which another of its region is no dearer per sample, no slower and no dearer per hour
    is left out, and of equal ones all but the first.
    """
    best, rows = recommendation.best, []
    figures = [_figures(each) for each in recommendation.shown]
    for number, (each, own) in enumerate(zip(recommendation.shown, figures, strict=True)):
        is_first = own not in figures[:number]
        if each is best or (is_first and not any(_is_worse(own, other) for other in figures)):
            rows.append(each)
    shown = rows[:limit]
    if recommendation.alone is not None and recommendation.alone not in shown:
        shown.append(recommendation.alone)
    return shown


_Figures = tuple[str, float, float, float]


def _figures(candidate: Candidate) -> _Figures:
    dollars, seconds = candidate.dollars_per_sample, candidate.seconds_per_sample
    dollars, seconds, per_hour = (
        float(f"{each:.9g}") for each in (dollars, seconds, candidate.per_hour)
    )
    return candidate.region, dollars, seconds, per_hour


def _is_worse(own: _Figures, other: _Figures) -> bool:
    (region, *mine), (its_region, *its) = own, other
    return region == its_region and mine != its and all(map(operator.ge, mine, its))


def _row(candidate: Candidate, recommendation: Recommendation) -> tuple[str, ...]:
    """Return the cells of a cluster, in the order of the head."""
    data = candidate.shape.data
    old = OLD_MARK if any(price.is_old(recommendation.today) for price in candidate.prices) else ""
    step = candidate.step.seconds
    return (
        f"{candidate.shape.train.count} x {candidate.shape.train.instance.name}",
        f"{data.count} x {data.instance.name}" if data else "-",
        f"{step.expected * 1e3:.4g} ({step.low * 1e3:.4g} to {step.high * 1e3:.4g})",
        candidate.step.bottleneck.value,
        f"{candidate.step.gpu_busy:.0%}",
        _dollars(candidate.per_hour, ",.3f") + old,
        _dollars(candidate.per_step.expected * 1000, ".4g"),
        _money(candidate.per_epoch),
        _money(candidate.total),
        "-" if candidate.hours is None else f"{candidate.hours.expected:.3g}",
    )


def notes(recommendation: Recommendation) -> Iterator[str]:
    """Yield what the numbers rest on, and what was not compared."""
    order, best = recommendation.order, recommendation.best
    yield f"{recommendation.compared} clusters compared, by {order.value} per sample."
    for region in recommendation.regions:
        own = [each for each in recommendation.shown if each.region == region]
        prices = dict.fromkeys(price for each in own for price in each.prices)
        for source in price_sources(prices, region, recommendation.today):
            yield f"Prices: {source}; storage and traffic are not included."
    for region, names in recommendation.without_own_price.items():
        yield (
            f"No price of {region} itself, so not compared there: {listed(names)}; "
            f"`launcher plan types --update --region {region}` reads them."
        )
    if names := recommendation.without_price:
        aside = ", so not compared" if recommendation.nearest else ""
        yield f"Price unknown{aside}: {listed(names)}."
    if names := recommendation.without_time:
        yield f"No time in the workload for the accelerator: {listed(names)}."
    if names := recommendation.without_memory:
        yield f"Too little memory for the model, however spread: {listed(names)}."
    if names := recommendation.without_vcpus:
        yield f"No vCPU left by the ranks to prepare or receive: {listed(names)}."
    if best and best.strategy is None:
        yield UNKNOWN
    if few := sorted(set(_with_few_workers(recommendation))):
        size = bytes_text(round(recommendation.workload.bytes_per_worker))
        yield f"Memory for fewer workers than vCPUs, of {size} each: {listed(few)}."
    if recommendation.workload.wait_seconds_per_sample.mean:
        yield _waiting(recommendation.workload)
    if recommendation.workload.model is None and any(
        each.shape.train.instance.processes > 1 for each in recommendation.shown
    ):
        yield (
            "gpu_seconds_per_step is that of one rank: what ranks of one host add to each other's "
            "steps is not in it, unless it was measured with all of them, or the model is given."
        )
    if recommendation.without_batches and recommendation.nearest:
        found = batch_shortage(recommendation.workload, recommendation.without_batches)
        yield f"Not compared: {found}."
    if recommendation.without_exchange and recommendation.best:
        yield f"{UNKNOWN_EXCHANGE[:1].upper()}{UNKNOWN_EXCHANGE[1:]}."
    if _has_computed_exchange(recommendation):
        yield (
            "What ranks add to each other's steps is computed, not measured: their gradients over "
            "the network at 70% (50% to 90%) of its speed, NVLink at 77% (60% to 85%) and PCIe at "
            "40% (20% to 80%), half of the step (none to two thirds) beside the backward pass."
        )
    if unknown := _unknown_speeds(recommendation):
        compared = [name for name in unknown if name in cpu_speeds()]
        others = [name for name in unknown if name not in cpu_speeds()]
        to_what = (
            "" if recommendation.workload.cpu_reference else " to a c5, which yours may not be"
        )
        if compared:
            yield (
                f"CPU speed of {', '.join(compared)} is that of public benchmarks (Spare Cores, "
                f"2026-02){to_what}: give cpu_speed."
            )
        if others:
            yield f"CPU speed of {', '.join(others)} is unknown: taken as 1, in a wide range."
    if best and best.spot_per_hour:
        low, high = (dollars_text(each) for each in best.spot_per_hour)
        yield (
            "With spot instances, by your prices, the recommended cluster costs "
            f"{low} to {high} an hour."
        )
    if best and best.workload.epochs is None:
        yield "Give --epochs and samples_per_epoch for hours and total dollars."
    elif best and best.workload.start_seconds == START_SECONDS:
        start = START_SECONDS
        yield (
            "Hours and totals include a job's start (image, downloads, imports): "
            f"{start.mean:.0f} s ({start.low:.0f} to {start.high:.0f}) of all hosts, assumed; give "
            "start_seconds."
        )


def explained_clusters(recommendation: Recommendation, limit: int = 10) -> Iterator[str]:
    """Yield why each shown cluster is recommended or not, and how its numbers are computed."""
    best = recommendation.best
    for each in shown_clusters(recommendation, limit):
        reason = why_not(each, best) if best else "its price is unknown"
        yield from ("", f"{recommendation.name(each)}: {reason}")
        yield from (f"  {line}" for line in explanation(each))


def _with_few_workers(recommendation: Recommendation) -> Iterator[str]:
    """Yield the shown types whose memory does not hold a worker for each vCPU."""
    load = recommendation.workload
    for each in recommendation.shown:
        train, data = each.shape.train, each.shape.data
        if train.workers is None and local_workers(load, train) < (
            vcpus := local_vcpus(load, train)
        ):
            yield f"{train.instance.name} ({local_workers(load, train)} of {vcpus})"
        if data and data_workers(load, data.instance) < (data.instance.vcpu or 0):
            workers = data_workers(load, data.instance)
            yield f"{data.instance.name} ({workers} of {data.instance.vcpu})"


def _waiting(workload: Workload) -> str:
    wait = 1e3 * workload.wait_seconds_per_sample.mean
    whole = wait + 1e3 * workload.cpu_seconds_per_sample.mean
    return (
        f"A sample waits for storage for {wait:.3g} of its {whole:.3g} ms, so a vCPU has up to "
        f"{MOST_WORKERS_PER_VCPU} workers, as memory allows: that storage serves all of them as "
        "fast is assumed, not measured."
    )


def _unknown_speeds(recommendation: Recommendation) -> list[str]:
    return sorted({name for each in recommendation.shown for name in unmeasured_families(each)})


def _has_computed_exchange(recommendation: Recommendation) -> bool:
    is_measured = recommendation.workload.communication_seconds_per_step is not None
    return any(
        each.step.exchange and not (is_measured and each.shape.train.count > 1)
        for each in recommendation.shown
    )


def _money(amount: Interval | None) -> str:
    return "-" if amount is None else _dollars(amount.expected, ",.2f")


def _dollars(amount: float, style: str) -> str:
    return "unknown" if math.isnan(amount) else format(amount, style)


def plain_recommendation(recommendation: Recommendation, limit: int) -> dict[str, Any]:
    """Return the answer, the `limit` best clusters and the notes; seconds, hours and USD."""
    best, shown = recommendation.best, shown_clusters(recommendation, limit)
    return {
        "recommended": _cluster(best, recommendation) if best else None,
        "reason": recommendation.reason,
        "without_data_group": break_even(best) if best else None,
        "alternatives": list(alternatives(best, recommendation.shown)) if best else [],
        "sorted_by": recommendation.order.value,
        "compared": recommendation.compared,
        "clusters": [_cluster(each, recommendation) for each in shown],
        "pareto": [_cluster(each, recommendation) for each in recommendation.pareto],
        "regions": list(recommendation.regions),
        "price_unknown": list(recommendation.without_price),
        "own_price_unknown": {
            region: list(names) for region, names in recommendation.without_own_price.items()
        },
        "time_unknown": list(recommendation.without_time),
        "memory_too_small": list(recommendation.without_memory),
        "no_vcpu_left": list(recommendation.without_vcpus),
        "no_room_for_a_worker": list(recommendation.without_room),
        "notes": list(notes(recommendation)),
        "explanation": list(explanation(best)) if best else [],
    }


def _cluster(candidate: Candidate, recommendation: Recommendation) -> dict[str, Any]:
    step, data, best = candidate.step, candidate.shape.data, recommendation.best
    return {
        "region": candidate.region,
        "reason": why_not(candidate, best) if best else None,
        "train": _group(candidate.shape.train, candidate.prices[0], recommendation),
        "data": _group(data, candidate.prices[1], recommendation) if data else None,
        "step_seconds": asdict(step.seconds),
        "bottleneck": step.bottleneck.value,
        "limits": {kind.value: needed for kind, needed in step.seconds_by_resource.items()},
        "gpu_busy": step.gpu_busy,
        "offloaded": step.offloaded,
        "stall_seconds": step.stall,
        "prefetch_bytes": step.prefetch.host_bytes,
        "strategy": _strategy(candidate),
        "samples_per_step": candidate.samples_per_step,
        "steps_per_epoch": candidate.steps_per_epoch,
        "per_hour": _known(candidate.per_hour),
        "spot_per_hour": candidate.spot_per_hour,
        "per_step": _interval(candidate.per_step),
        "per_epoch": _interval(candidate.per_epoch),
        "total": _interval(candidate.total),
        "hours": _interval(candidate.hours),
        "explanation": list(explanation(candidate)),
    }


def _strategy(candidate: Candidate) -> dict[str, Any] | None:
    """Return the parallel strategy in numbers; None if the model's memory is unknown."""
    found = candidate.strategy
    if found is None:
        return None
    degrees = found.degrees
    return {
        "kind": found.kind,
        "changes": list(found.changes),
        "replicas": degrees.data,
        "stages": degrees.pipeline,
        "sharded": found.savings.sharded,
        "accumulation": degrees.accumulation,
        "microbatches": degrees.microbatches,
        "samples_at_once": degrees.microbatch,
        "global_batch": degrees.global_batch,
        "bytes": {**asdict(found.need), "total": found.need.total},
        "available_bytes": found.available,
        "fits": found.fits,
        "warnings": list(strategy_warnings(candidate)),
    }


def _group(group: GroupShape, price: Price, recommendation: Recommendation) -> dict[str, Any]:
    return {
        "instance_type": group.instance.name,
        "count": group.count,
        "price_per_hour": _known(price.per_hour),
        "price_as_of": price.as_of,
        "price_region": price.region,
        "price_source": price.source,
        "price_is_old": price.is_old(recommendation.today),
    }


def _interval(amount: Interval | None) -> dict[str, float] | None:
    return None if amount is None or math.isnan(amount.expected) else asdict(amount)


def _known(dollars: float) -> float | None:
    return None if math.isnan(dollars) else dollars
