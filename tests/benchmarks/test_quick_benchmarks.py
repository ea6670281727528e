"""Benchmarks run: their figures are void here, but they are all there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from quick_runs import report_of, run

#: Each row does what the others do not: bytes that are verified, a driven dispatcher, memory.
FEW = ["transfer", "dispatcher", "memory"]
REST = ["main-loop", "preprocessing", "scaling", "faults", "cut-link", "start", "published"]
ENGINES = {"Launcher", "tf.data service", "Ray Data", "torch"}
WAYS = ("sample", "worker", "2 workers", "served")


def measured_rows(report: dict[str, Any]) -> set[str]:
    return {figure["row"].replace(" ", "-") for figure in report["figures"] if figure["values"]}


def test_every_row_of_the_data_service_is_run_here() -> None:
    from data_service import ROWS

    assert set(ROWS) == {*FEW, *REST}


@pytest.mark.long
def test_the_data_service_is_measured_with_raw_tcp_and_says_where(tmp_path: Path) -> None:
    report = report_of("data_service.py", tmp_path, ",".join(FEW))
    assert measured_rows(report) == set(FEW)
    assert {"commit", "date", "machine"} <= set(report)
    verdicts = {figure["what"]: figure["verdict"] for figure in report["figures"]}
    assert verdicts["4 MB: rate to raw TCP"] in ("pass", "FAIL")
    assert verdicts["4 MB: CPU to tf.data"] == "not measured"  # its environment is large


@pytest.mark.library("tensorflow")
def test_the_data_service_is_measured_with_its_peers(tmp_path: Path) -> None:
    report = report_of("data_service.py", tmp_path, "transfer", "--peers-python", sys.executable)
    assert measured_rows(report) == {"transfer"}
    verdicts = {figure["what"]: figure["verdict"] for figure in report["figures"]}
    assert verdicts["4 MB: CPU to tf.data"] in ("pass", "FAIL")


@pytest.mark.slow
@pytest.mark.parametrize("row", REST)
def test_every_other_row_of_the_data_service_runs(tmp_path: Path, row: str) -> None:
    report = report_of("data_service.py", tmp_path, row)
    if row == "cut-link" and report["figures"][0]["note"]:
        pytest.skip(report["figures"][0]["note"])
    assert measured_rows(report) == {row}


@pytest.mark.long
@pytest.mark.parametrize("row", ["images", "tokens", "scaling", "linear"])
def test_our_engine_is_measured(tmp_path: Path, row: str) -> None:
    pytest.importorskip("PIL", reason="the samples need the extra 'examples'")
    report = report_of("engines.py", tmp_path, row, "--no-peers")
    assert {"commit", "date", "machine"} <= set(report)
    assert measured_rows(report)


@pytest.mark.slow
@pytest.mark.library("engines")
@pytest.mark.parametrize("row", ["images", "tokens", "scaling"])
def test_all_engines_are_measured(tmp_path: Path, row: str) -> None:
    report = report_of("engines.py", tmp_path, row, "--peers-python", sys.executable)
    whats = [figure["what"] for figure in report["figures"] if figure["values"]]
    sides = {what.partition(",")[0] for what in whats if "workers" in what}
    assert sides == ENGINES


@pytest.mark.long
@pytest.mark.parametrize("row", ["prints", "beside"])
def test_a_rank_is_measured_with_and_without_passing_on(tmp_path: Path, row: str) -> None:
    figures = report_of("output_relay.py", tmp_path, row)["figures"]
    assert len(figures) == 4
    assert all(figure["median"] > 0 for figure in figures), figures


@pytest.mark.slow
def test_every_way_of_the_loader_is_compared_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    report, workloads = tmp_path / "report.json", ["one int", "padded x 32", "ragged x 32"]
    done = run("loader.py", "--rounds", "2", "--json", report, "--only", *workloads)
    assert done.returncode == 0, done.stderr
    rows = json.loads(report.read_text())["workloads"]
    assert list(rows) == workloads
    for name, row in rows.items():
        assert f"| {name} |" in done.stdout
        for way in WAYS:
            median, low, high = row[way]
            assert low <= median <= high
            assert median > 0


@pytest.mark.long
def test_without_a_gpu_it_says_so_and_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run("gpu.py")
    assert done.stdout.startswith("not measured: "), done.stderr
    assert done.returncode == 0


def test_an_unknown_row_is_refused() -> None:
    done = run("gpu.py", "--rows", "tensor_parallel")
    assert done.returncode == 2
    assert "no row is called tensor_parallel" in done.stderr
