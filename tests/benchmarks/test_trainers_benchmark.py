"""The benchmark of the trainers runs: its figures are void here, but they are all there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from quick_runs import report_of

from table.figures import Figure, at_most, interval_of


def run(folder: Path, row: str) -> list[dict[str, Any]]:
    pytest.importorskip("torch")
    return list(report_of("trainers.py", folder, row)["figures"])


@pytest.mark.slow
def test_both_sides_of_the_overhead_learn_the_same(tmp_path: Path) -> None:
    figures = {figure["what"]: figure for figure in run(tmp_path, "overhead")}
    apart = [name for name in figures if "what was learned, apart" in name]
    assert len(apart) == 2
    assert all(figures[name]["verdict"] == "pass" for name in apart)
    slower = figures["data parallel, 2 ranks: slower than by hand"]
    assert slower["interval"][0] <= slower["median"] <= slower["interval"][1]


@pytest.mark.slow
def test_sleeping_stages_hold_as_many_microbatches_as_they_should(tmp_path: Path) -> None:
    held = [figure for figure in run(tmp_path, "bubble") if "live microbatches" in figure["what"]]
    assert [figure["verdict"] for figure in held] == ["pass", "pass"], held
    assert [figure["note"] for figure in held] == ["by stage 4, 4, 4, 4", "by stage 4, 3, 2, 1"]


@pytest.mark.slow
def test_replicas_that_sleep_are_measured_alone_and_together(tmp_path: Path) -> None:
    figures = {figure["what"]: figure["median"] for figure in run(tmp_path, "efficiency")}
    assert 0 < figures["1 ranks"] < figures["4 ranks"]


@pytest.mark.long
def test_the_row_of_gpus_says_when_there_are_none(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    (figure,) = run(tmp_path, "step")
    assert (figure["verdict"], figure["note"]) == ("not measured", "there is no GPU here")


def test_an_interval_has_the_median_in_it_and_shrinks_with_more_values() -> None:
    draw = random.Random(5).gauss
    few, many = ([draw(1.0, 0.5) for _ in range(count)] for count in (20, 500))
    widths = []
    for values in (few, many):
        least, most = interval_of(values)
        assert least <= 1.0 <= most
        widths.append(most - least)
    assert widths[1] < widths[0] / 3


@pytest.mark.parametrize(
    ("values", "interval", "verdict", "is_open"),
    [
        ([1.0, 1.2], (0.9, 1.3), "pass", False),
        ([1.0, 1.2], (0.9, 2.3), "pass", True),
        ([2.5, 2.7], (1.9, 2.9), "FAIL", True),
        ([2.5, 2.7], (2.4, 2.9), "FAIL", False),
    ],
)
def test_the_median_keeps_a_target_and_the_interval_says_how_surely(
    values: list[float], interval: tuple[float, float], verdict: str, is_open: bool
) -> None:
    figure = Figure(row="r", what="w", values=values, target=at_most(2), interval=interval)
    assert figure.verdict == verdict
    assert ("on both sides of the target" in str(figure)) is is_open
