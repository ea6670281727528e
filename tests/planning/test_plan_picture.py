"""Clusters that none is both cheaper and faster than, and the pictures of price over time."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recommendation import G5, WORKLOAD, chosen, made_up, priced

from launcher.client.cli import plan_chart
from launcher.client.planning import (
    ClusterScatter,
    PlanLimits,
    Recommendation,
    ScatterArea,
    Workload,
    candidates,
    position,
    recommendation_page,
    recommendation_scatter,
    ticks,
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


def test_axes_are_logarithmic_with_round_numbers() -> None:
    assert position(10, (1, 100)) == pytest.approx(0.5)
    assert ticks((0.9, 30)) == pytest.approx([1, 2, 5, 10, 20])
    assert ticks((0.9, 1e5)) == pytest.approx([1, 10, 100, 1000, 10000, 100000])


def test_a_chart_has_each_mark_and_keeps_to_its_width() -> None:
    lines = plan_chart(scatter_of(), 72)
    assert all(len(line) <= 72 for line in lines[1:])
    drawing = "\n".join(lines[1:])
    assert drawing.count("@") == 1
    assert "·" in drawing


def test_nothing_is_drawn_of_no_cluster() -> None:
    found = chosen(WORKLOAD, TYPES, PlanLimits(max_cost_per_hour=0.01))
    assert recommendation_scatter(found) is None
    assert "<svg" not in found._repr_html_()
    assert "No cluster is recommended" in found._repr_html_()


def test_an_axis_that_is_too_short_for_round_numbers_is_labelled_at_its_ends() -> None:
    axis = (3.1, 3.9)
    assert ticks(axis) == []
    scatter = ClusterScatter(points=(), what="10 epochs", hours=axis, dollars=axis)
    area = ScatterArea(width=100, height=100, left=9, right=9, top=9, bottom=9, grid="")
    labels = re.findall(">([^<]+)</text>", "".join(area.axes(scatter, "hours")))
    assert labels == ["3.1", "3.9", "$3.1", "$3.9", "hours"]


def test_a_page_loads_nothing_and_names_each_dot(tmp_path: Path) -> None:
    found: Recommendation = chosen(WORKLOAD, TYPES)
    page = recommendation_page(found)
    tags = re.findall(r"<(/?)(\w+)[^>]*?(/?)>", page)
    opened: list[str] = []
    for is_end, tag, is_empty in tags:
        if is_end:
            assert opened.pop() == tag
        elif not is_empty and tag not in ("meta", "br"):
            opened.append(tag)
    assert opened == []
    links = set(re.findall(r'(?:https?:)?//[^\s"<]+', page))
    assert links == {"http://www.w3.org/2000/svg"}  # a name, which nobody loads
    assert not re.search(r"<(script|link|img|iframe)|url\(|@import", page)
    scatter = scatter_of()
    assert page.count("<circle") == len(scatter.points) + 3  # and the legend
    best = next(point for point in scatter.points if point.is_best)
    assert f"<title>{best.name}: {best.hours:.3g} hours, ${best.dollars:,.2f}</title>" in page
    file = tmp_path / "plan.html"
    found.write_html(file)
    assert file.read_text() == page
    with pytest.raises(PlatformError, match="exists already"):
        found.write_html(file)
