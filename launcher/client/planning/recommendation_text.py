"""A recommendation as text: the answer, the table of clusters, and how each number is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client.catalogue.cost import dollars_text
from launcher.client.jobs.aligned_columns import aligned
from launcher.client.planning.candidate_reasons import break_even, cluster_text, why_not
from launcher.client.planning.candidates import Candidate
from launcher.client.planning.step_model import (
    SECONDS_PER_GB,
    Interval,
    family,
    local_workers,
    spare_vcpus,
)
from launcher.client.planning.strategy_text import (
    UNKNOWN,
    strategy_text,
    strategy_warnings,
    strategy_why,
)
from launcher.shared.partitions.quantities import bytes_text

if TYPE_CHECKING:
    from launcher.client.planning.recommendation import Recommendation

HEAD = (
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
_NUMERIC = frozenset(HEAD) - {"train", "data", "bottleneck"}
_NAMES = 6


def recommendation_text(recommendation: Recommendation, limit: int = 10) -> str:
    """Return the answer with its reason, the `limit` best clusters, and notes."""
    best = recommendation.best
    lines = [f"Recommended: {cluster_text(best)}" if best else "Recommended: none"]
    lines.append(f"  {recommendation.reason}")
    if best and (needed := break_even(best)):
        lines.append(f"  {needed}")
    if best and best.strategy:
        lines.append(f"  {strategy_text(best)}")
        lines += [f"  {warning}" for warning in strategy_warnings(best)]
    if recommendation.shown:
        lines += ["", *aligned(_rows(recommendation, limit), _NUMERIC)]
    return "\n".join([*lines, "", *notes(recommendation)])


def _rows(recommendation: Recommendation, limit: int) -> list[tuple[str, ...]]:
    """Return the table's rows; with several regions, the first column names them."""
    shown = shown_clusters(recommendation, limit)
    rows = [HEAD, *(row(each, recommendation) for each in shown)]
    if len({each.region for each in recommendation.shown}) == 1:
        return rows
    regions = ("region", *(each.region for each in shown))
    return [(region, *cells) for region, cells in zip(regions, rows, strict=True)]


def shown_clusters(recommendation: Recommendation, limit: int) -> list[Candidate]:
    """Return the best clusters, and the best one without a data group if it is not among them."""
    shown = list(recommendation.shown[:limit])
    if recommendation.alone is not None and recommendation.alone not in shown:
        shown.append(recommendation.alone)
    return shown


def row(candidate: Candidate, recommendation: Recommendation) -> tuple[str, ...]:
    """Return the cells of a cluster, in the order of HEAD; "*" marks an old price."""
    data = candidate.shape.data
    old = "*" if any(price.is_old(recommendation.today) for price in candidate.prices) else ""
    step = candidate.step.seconds
    return (
        f"{candidate.shape.train.count} x {candidate.shape.train.instance.name}",
        f"{data.count} x {data.instance.name}" if data else "-",
        f"{step.expected * 1e3:.4g} ({step.low * 1e3:.4g} to {step.high * 1e3:.4g})",
        candidate.step.bottleneck.value,
        f"{candidate.step.gpu_busy:.0%}",
        f"{candidate.per_hour:,.3f}{old}",
        f"{candidate.per_step.expected * 1000:.4g}",
        _money(candidate.per_epoch),
        _money(candidate.total),
        "-" if candidate.hours is None else f"{candidate.hours.expected:.3g}",
    )


def notes(recommendation: Recommendation) -> Iterator[str]:
    """Yield what the numbers rest on, and what was not compared."""
    order, best = recommendation.order, recommendation.best
    yield f"{recommendation.compared} clusters compared, by {order.value} per sample."
    prices = {price for each in recommendation.shown for price in each.prices}
    dates = sorted({price.as_of or "unknown date" for price in prices if not price.file})
    if dates:
        yield f"Prices: on demand, of {', '.join(dates)}; storage and traffic are not included."
    if any(price.is_old(recommendation.today) for price in prices):
        yield "* an old price; `launcher catalog update` reads today's."
    if borrowed := _borrowed(recommendation):
        yield f"Prices of us-east-1 stand for {', '.join(borrowed)}, which differ."
    if names := recommendation.without_price:
        yield f"Price unknown, so not compared: {_listed(names)}."
    if names := recommendation.without_time:
        yield f"No time in the workload for the accelerator: {_listed(names)}."
    if names := recommendation.without_memory:
        yield f"Too little memory for the model, however spread: {_listed(names)}."
    if names := recommendation.without_vcpus:
        yield f"No vCPU left by the ranks to prepare or receive: {_listed(names)}."
    if best and best.strategy is None:
        yield UNKNOWN
    if unknown := _unknown_speeds(recommendation):
        yield (
            f"CPU speed of {', '.join(unknown)} is not measured: taken as 1, and the range of the "
            "step is wider."
        )
    if best and best.spot_per_hour:
        low, high = (dollars_text(each) for each in best.spot_per_hour)
        yield (
            "With spot instances, by your prices, the recommended cluster costs "
            f"{low} to {high} an hour."
        )
    if best and best.workload.epochs is None:
        yield "Give --epochs and samples_per_epoch for hours and total dollars."


def cluster_reasons(recommendation: Recommendation, limit: int = 10) -> Iterator[str]:
    """Yield the reason why each shown cluster is recommended or not, a line each."""
    if recommendation.best is not None:
        for each in shown_clusters(recommendation, limit):
            yield f"{cluster_text(each)}: {why_not(each, recommendation.best)}"


def explanation(recommendation: Recommendation) -> Iterator[str]:
    """Yield how each number of the recommended cluster is computed, a line each."""
    best = recommendation.best
    if best is None:
        return
    load, shape, step = recommendation.workload, best.shape, best.step
    spare = spare_vcpus(load, shape.train)
    seconds = best.samples_per_step * load.cpu_seconds_per_sample.mean
    gigabytes = shape.ranks * load.bytes_per_batch / 1e9
    yield f"samples per step: {shape.ranks} ranks x {load.batch_size} = {best.samples_per_step}"
    yield (
        f"CPU of a step: {best.samples_per_step} samples x "
        f"{load.cpu_seconds_per_sample.mean:.4g} s = {seconds:.4g} vCPU seconds"
    )
    workers = shape.train.count * local_workers(load, shape.train)
    yield (
        f"idle vCPUs of the train hosts: {shape.train.count} x {shape.train.instance.vcpu} - "
        f"{shape.ranks} ranks x {load.cpus_per_rank:g} = {spare:g}, for {workers} local workers"
    )
    if shape.data:
        vcpus = shape.data.count * (shape.data.instance.vcpu or 0)
        yield f"vCPUs of the data group: {shape.data.count} x {shape.data.instance.vcpu} = {vcpus}"
        yield (
            f"bytes of a step: {gigabytes:.4g} GB; each side of the data service takes "
            f"{SECONDS_PER_GB} CPU s per GB (benchmarks/RESULTS.md)"
        )
        yield f"share of the data group: {step.offloaded:.1%}, where both sides take as long"
    for resource, needed in step.seconds_by_resource.items():
        binding = ", the bottleneck" if resource is step.bottleneck else ""
        yield f"{resource.value}: {needed * 1e3:.4g} ms per step{binding}"
    yield (
        f"prepared ahead: {step.prefetch.batches} batches of each rank, by "
        f"{bytes_text(step.prefetch.host_bytes)} on each train host"
    )
    if step.stall:
        yield f"waits for batches that take long: {step.stall * 1e3:.4g} ms per step"
    yield from strategy_why(best)
    yield f"GPU busy: {step.gpu_busy:.1%} = the accelerator's time / the step"
    terms = [f"{shape.train.count} x ${best.prices[0].per_hour:g}"]
    if shape.data:
        terms.append(f"{shape.data.count} x ${best.prices[1].per_hour:g}")
    yield f"per hour: {' + '.join(terms)} = ${best.per_hour:.3f}"
    yield (
        f"per step: ${best.per_hour:.3f} / 3600 x {step.seconds.expected:.4g} s = "
        f"${best.per_step.expected:.4g}"
    )
    if best.steps_per_epoch is not None and best.per_epoch is not None:
        yield (
            f"per epoch: {best.steps_per_epoch} steps = ceil({load.samples_per_epoch} / "
            f"{best.samples_per_step}), {dollars_text(best.per_epoch.expected)}"
        )


def _borrowed(recommendation: Recommendation) -> list[str]:
    return sorted(
        {
            each.region
            for each in recommendation.shown
            for price in each.prices
            if price.region not in (None, each.region)
        }
    )


def _unknown_speeds(recommendation: Recommendation) -> list[str]:
    groups = (each for c in recommendation.shown for each in (c.shape.train, c.shape.data) if each)
    known = set(recommendation.workload.cpu_speed)
    return sorted({family(each.instance) for each in groups} - known)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _money(amount: Interval | None) -> str:
    return "-" if amount is None else f"{amount.expected:,.2f}"
