"""Clusters that none is both cheaper and faster than, and the pictures of price over time."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shown_pages import blocks, shown_page
from test_recommendation import G5, WORKLOAD, chosen, made_up, priced

from launcher.client.cli import plan_chart
from launcher.client.planning import (
    ClusterScatter,
    PlanLimits,
    Recommendation,
    Workload,
    amounts,
    candidates,
    recommendation_page,
    recommendation_scatter,
)
from launcher.errors import PlatformError

TYPES = [G5, priced("ml.c5.xlarge", 0.2), priced("ml.m5.2xlarge", 0.5)]


def scatter_of(workload: Workload = WORKLOAD) -> ClusterScatter:
    found = recommendation_scatter(chosen(workload, TYPES))
    assert found is not None
    return found


@given(seed=st.integers(0, 10**6))
@settings(max_examples=100)
def test_none_is_cheaper_and_faster_than_the_pareto_set(seed: int) -> None:
    workload, types = made_up(seed)
    found = chosen(workload, types)
    compared = list(candidates(workload, {"us-east-1": types}))
    pairs = {(each.dollars_per_sample, each.seconds_per_sample) for each in compared}
    expected = {
        (price, time)
        for price, time in pairs
        if not any(p <= price and t <= time and (p, t) != (price, time) for p, t in pairs)
    }
    assert {(e.dollars_per_sample, e.seconds_per_sample) for e in found.pareto} == expected
    prices = [each.dollars_per_sample for each in found.pareto]
    assert prices == sorted(prices)


def test_the_pareto_set_keeps_to_the_limits() -> None:
    found = chosen(WORKLOAD, TYPES, PlanLimits(max_cost_per_hour=1.5))
    assert found.pareto
    assert all(each.per_hour <= 1.5 for each in found.pareto)


def test_points_are_of_the_whole_training_or_of_a_million_samples() -> None:
    whole, part = scatter_of(), scatter_of(replace(WORKLOAD, epochs=None))
    assert (whole.what, part.what) == ("10 epochs", "a million samples")
    for one, other in zip(whole.points, part.points, strict=True):  # a million samples, too
        assert math.isclose(one.hours, other.hours, rel_tol=1e-2)
        assert math.isclose(one.dollars, other.dollars, rel_tol=1e-2)
    assert sum(point.is_best for point in whole.points) == 1


def test_a_chart_has_each_mark_and_keeps_to_its_width() -> None:
    lines = plan_chart(scatter_of(), 72)
    assert all(len(line) <= 72 for line in lines[1:])
    drawing = "\n".join(lines[1:])
    assert drawing.count("@") == 1
    assert "·" in drawing


def test_nothing_is_drawn_of_no_cluster() -> None:
    found = chosen(WORKLOAD, TYPES, PlanLimits(max_cost_per_hour=0.01))
    assert recommendation_scatter(found) is None
    assert "No cluster is recommended" in found._repr_html_()


def test_a_page_loads_nothing_and_names_each_dot(tmp_path: Path) -> None:
    found: Recommendation = chosen(WORKLOAD, TYPES)
    page = recommendation_page(found)
    data = shown_page(page)
    (scatter,) = blocks(data, "scatter")
    points = scatter_of().points
    named = {name for each in scatter["series"] for name in each["names"]}
    assert named == {f"{each.name}: {amounts(each)}" for each in points}
    best = next(point for point in points if point.is_best)
    assert data["cards"][0]["value"] == found.answer
    assert best.name in found.answer
    file = tmp_path / "plan.html"
    found.write_html(file)
    assert file.read_text() == page
    with pytest.raises(PlatformError, match="exists already"):
        found.write_html(file)
