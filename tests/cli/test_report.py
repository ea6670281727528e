"""launcher report: one HTML file about a job, which needs no network."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from shown_pages import blocks, shown_page, words

from launcher.client.cli import main

#: Jobs that ran on this machine, with all they left behind.
RAN = Path(__file__).parents[1] / "compatibility" / "a405acd" / "home"
USAGE = (
    "launcher: host_usage host=algo-2 group=train_group cpu=0.{n} cpus=4 memory_bytes=1000{n} "
    "gpu=0.5 gpu_memory_bytes=7"
)
STEP = (
    "launcher: train_step host=algo-2 group=train_group rank=0 epoch=0 step={n} steps=9 loss=0.{n} "
    "data_wait=0.002 compute=0.08 communication=0.01 samples_per_second=64.5"
)
WARNING = (
    "launcher: memory_low host=algo-2 group=train_group "
    'why="<script>alert(1)</script> & 90% of it is used"'
)
WORKLOAD = """\
batch_size: 8
cpu_seconds_per_sample: 0.002
bytes_per_batch: 1000
gpu_seconds_per_step: {NVIDIA T4: 0.05}
samples_per_epoch: 8000
epochs: 10
"""
NVIDIA_SMI = """#!/bin/sh
echo "GPU 0: Tesla T4 (UUID: GPU-0a1b2c)"
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Jobs that ran, one of which has logged the use of its host, steps, and a warning."""
    home = tmp_path / "home"
    shutil.copytree(RAN, home)
    for file in home.rglob("*"):
        if file.suffix in (".json", ".log"):
            file.write_text(file.read_text().replace("{HOME}", str(home)))
    (log,) = (home / "jobs" / "done-job" / "logs").glob("algo-2-*.log")
    lines = [text.format(n=n) for text in (USAGE, STEP) for n in range(1, 10)]
    log.write_text(log.read_text() + "\n".join([*lines, WARNING, ""]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAUNCHER_HOME", str(home))
    monkeypatch.delenv("LAUNCHER_PRICES", raising=False)
    return home


def run(*words):
    return CliRunner().invoke(main, ["report", *words], catch_exceptions=False)


def test_the_file_has_all_parts_and_loads_nothing(home):
    Path("done-job.html").write_text("an earlier one")
    result = run("done-job")

    assert (result.exit_code, result.stdout) == (0, "done-job.html\n")
    html = Path("done-job.html").read_text()
    page = shown_page(html)  # which loads nothing
    titles = [each["title"] for each in page["sections"]]
    known = (
        "Metrics",
        "Steps",
        "Hosts",
        "Logs",
        "Speed",
        "Configuration",
        "Events",
        "Cost",
        "Plan",
    )
    assert titles == list(known)
    text = words(page)
    for part in ("compute-bound", "host/cpu, train_group", "train/loss, train_group", "sum"):
        assert part in text
    assert "1 x ml.g4dn.xlarge" in text
    assert "$0.74" in text
    assert len(blocks(page, "chart")) >= 5
    assert "started as data" in text
    assert " is old" not in text
    assert "Not planned: the job has no seconds of a step on an accelerator" in text
    assert "--workload" in text
    assert "memory is low: <script>alert(1)</script> & 90%" in text  # as text
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert "width=device-width" in html


def test_the_plan_of_a_workload_has_the_run_marked_on_it(home):
    Path("w.yaml").write_text(WORKLOAD)
    result = run("done-job", "--workload", "w.yaml")

    assert result.exit_code == 0, result.stderr
    (scatter,) = blocks(shown_page(Path("done-job.html").read_text()), "scatter", "Plan")
    assert scatter["title"].startswith("Dollars over hours of 10 epochs")
    run_here = scatter["series"][-1]
    assert run_here["name"] == "this run"
    assert run_here["names"][0].startswith("1 x ml.g4dn.xlarge with ")


def test_a_workload_with_a_fault_is_refused(home):
    Path("w.yaml").write_text(WORKLOAD.replace("batch_size", "batch"))
    result = run("done-job", "--workload", "w.yaml")

    assert result.exit_code == 2
    assert "w.yaml" in result.stderr
    assert not Path("done-job.html").exists()


def test_a_job_that_trained_on_this_machines_gpu_has_a_plan(home, tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    run("done-job")

    text = words(shown_page(Path("done-job.html").read_text()))
    assert "this run's 1 x ml.g4dn.xlarge with " in text
    assert "The workload is from what the job's hosts measured" in text


def test_an_old_price_is_said_to_be_old(home):
    (home / "prices.csv").write_text(
        "instance_type,price_per_hour,as_of\nml.g4dn.xlarge,0.7,2022-10\n"
    )
    run("done-job")
    text = words(shown_page(Path("done-job.html").read_text()))
    assert "prices.csv) of October 2022* (47 months old)." in text
    assert "`launcher plan types --update --region " in text


def test_its_data_are_printed_as_json(home):
    Path("w.yaml").write_text(WORKLOAD)
    result = run("done-job", "--workload", "w.yaml", "-o", "json")

    found = json.loads(result.stdout)
    assert found["diagnosis"]["limit"] == "compute-bound"
    assert found["cost"]["groups"][0]["instance_type"] == "ml.c5.2xlarge"
    assert found["plan"]["run"]["cluster"].startswith("1 x ml.g4dn.xlarge with ")
    assert {each["host"] for each in found["hosts"]} == {"algo-1", "algo-2"}
    assert not Path("done-job.html").exists()


def test_the_values_of_its_charts_are_printed_as_csv(home):
    result = run("done-job", "-o", "csv", "--out", "too.html")

    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    losses = [float(each["value"]) for each in rows if each["metric_name"] == "train/loss"]
    assert losses == [pytest.approx(number / 10) for number in range(1, 10)]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+0000", rows[0]["time"])
    assert Path("too.html").exists()


def test_values_at_the_ends_of_a_floats_range_are_drawn(home):
    (log,) = (home / "jobs" / "done-job" / "logs").glob("algo-2-*.log")
    lines = [STEP.format(n=n).replace("loss=0.", "loss=-1.7e308 x=") for n in (1, 2)]
    lines += [STEP.format(n=n).replace("loss=0.", "loss=1.7e308 x=") for n in (3, 4)]
    log.write_text(log.read_text() + "\n".join([*lines, ""]))

    assert run("done-job").exit_code == 0
    charts = blocks(shown_page(Path("done-job.html").read_text()), "chart", "Metrics")
    (loss,) = (each for each in charts if each["title"].startswith("train/loss"))
    assert {-1e300, 1e300} <= set(loss["series"][0]["y"])  # no screen is higher


def test_a_job_that_failed_early_has_one_too(home):
    result = run("failed-job", "--out", "other.html")

    assert (result.exit_code, result.stdout) == (0, "other.html\n")
    assert "not sure" in words(shown_page(Path("other.html").read_text()))


def test_it_opens_in_the_users_browser(home, tmp_path, monkeypatch):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    # webbrowser reads the variable once
    import webbrowser

    monkeypatch.setattr(webbrowser, "_tryorder", None)
    result = run("done-job", "--open")

    assert result.exit_code == 0
    opened = (tmp_path / "opened").read_text().strip()
    assert opened == (tmp_path / "done-job.html").resolve().as_uri()


def test_what_cannot_be_is_an_error(home):
    assert run("done-job", "--out", "no/such/folder.html").exit_code == 2
    assert run("no-job").exit_code == 2
