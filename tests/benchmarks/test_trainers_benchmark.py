"""The benchmark of the trainers runs: its figures are void here, but they are all there."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "trainers.py"
sys.path.append(str(BENCHMARK.parent))

from table.figures import Figure, at_most, interval_of  # noqa: E402 - they are no package


def run(folder: Path, *rows: str) -> list[dict[str, Any]]:
    pytest.importorskip("torch")
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--quick", "--rows", ",".join(rows), "--json", report],
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert done.returncode in (0, 1), done.stderr  # 1: a target was missed, on a busy machine
    assert report.exists(), done.stderr
    figures = list(json.loads(report.read_text())["figures"])
    assert not [f for f in figures if f["what"] == "the row did not end"], done.stderr
    return figures


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
