"""What stands below the table of a plan: what its numbers mean, and where everything goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.catalogue.cost import duration_text
from launcher.catalogue.prices import bring_a_price

if TYPE_CHECKING:
    from launcher.plan.plan import Plan


def notes(plan: Plan) -> list[tuple[str, str]]:
    """Labels and texts, in the order in which a reader asks."""
    return [*_money(plan), *_places(plan)]


def _money(plan: Plan) -> Iterator[tuple[str, str]]:
    spec = plan.spec
    longest = f"after {duration_text(spec.max_run)} (max_run)"
    yield "Estimate", f"max $ is reached {longest}; storage and traffic are not in it"
    for source in plan.estimate.sources:
        yield "Prices", source
    if unknown := plan.estimate.unknown_types:
        yield "Unknown", f"what {', '.join(unknown)} costs: {bring_a_price(unknown[0])}"
    if spec.use_spot_instances:
        yield "Spot", "costs less than this; how much less is known afterwards"


def _places(plan: Plan) -> Iterator[tuple[str, str]]:
    region = plan.estimate.region or "not known here (AWS_DEFAULT_REGION names it)"
    place = plan.placement
    yield "Region", f"{region}, account {place.role_arn.split(':')[4]}" if place else region
    if place:
        yield "Image", place.image_uri
        yield "Code", place.code_uri
        yield "Output", f"{place.output_uri}/{place.job_name}/output/"
        if place.checkpoint_uri:
            yield "Saves", place.checkpoint_uri
