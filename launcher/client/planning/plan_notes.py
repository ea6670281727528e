"""Notes below the table of a plan: the meaning of its numbers, and the output locations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.catalogue.prices import price_fix
from launcher.client.jobs.durations import readable

if TYPE_CHECKING:
    from launcher.client.planning.cost_plan import CostPlan


def notes(plan: CostPlan) -> list[tuple[str, str]]:
    """Return labels and texts, in reading order."""
    return [*_money(plan), *_places(plan)]


def _money(plan: CostPlan) -> Iterator[tuple[str, str]]:
    spec = plan.spec
    longest = f"max $ is reached after {readable(spec.max_run)} (max_run)"
    if spec.keep_alive_period_in_seconds:
        longest += f" and {readable(spec.keep_alive_period_in_seconds)} as a warm pool"
    if plan.alternatives:
        longest += " with the most expensive types"
    yield "Estimate", f"{longest}; storage and traffic are not in it"
    for source in plan.estimate.sources:
        yield "Prices", source
    if unknown := plan.most_expensive.unknown_types:
        yield "Unknown", f"what {', '.join(unknown)} costs: {price_fix(unknown[0])}"
    if spec.training_plan:
        yield "Paid", "in advance, by the training plan; these are the prices without it"
    if spec.use_spot_instances:
        yield "Spot", "costs less than this; how much less is known afterwards"


def _places(plan: CostPlan) -> Iterator[tuple[str, str]]:
    region = plan.estimate.region or "not known here (AWS_DEFAULT_REGION names it)"
    place = plan.placement
    yield "Region", f"{region}, account {place.role_arn.split(':')[4]}" if place else region
    if place:
        yield "Image", place.image_uri
        yield "Code", place.code_uri
        yield "Output", f"{place.output_uri}/{place.job_name}/output/"
        if place.checkpoint_uri:
            yield "Saves", place.checkpoint_uri
