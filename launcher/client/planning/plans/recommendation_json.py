"""A recommendation as plain values, for `launcher plan -o json`."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from launcher.client.catalogue import Price
from launcher.client.planning.plans.alternatives import alternatives
from launcher.client.planning.plans.candidate_explanation import explanation
from launcher.client.planning.plans.candidate_reasons import break_even, why_not
from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.planning.plans.recommendation import Recommendation
from launcher.client.planning.plans.recommendation_layout import notes, shown_clusters
from launcher.client.planning.plans.step_model import GroupShape, Interval
from launcher.client.planning.plans.strategy_text import strategy_warnings


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
