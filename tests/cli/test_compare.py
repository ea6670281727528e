"""launcher compare: jobs of this machine side by side, from what their hosts logged."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.client.cli import main

#: Jobs that ran on this machine, with all they left behind.
RAN = Path(__file__).parents[1] / "compatibility" / "a405acd" / "home"
EPOCH = (
    "launcher: data_epoch host=algo-2 group=train_group rank=0 stream=pipeline:train_set "
    "epoch={epoch} steps=50 samples=1600 pads=0 drops=0 wait_seconds=1 total_seconds={total} "
    "waits={{}}"
)


@pytest.fixture
def compared(tmp_path):
    """Compare two jobs whose epochs of 50 steps take these seconds."""
    home = tmp_path / "home"
    shutil.copytree(RAN, home)
    for file in home.rglob("*"):
        if file.suffix in (".json", ".log"):
            file.write_text(file.read_text().replace("{HOME}", str(home)))

    def compared(first, second, *options):
        for name, seconds in (("done-job", first), ("failed-job", second)):
            (log,) = (home / "jobs" / name / "logs").glob("algo-2-*.log")
            lines = log.read_text().splitlines()
            kept = [line for line in lines if not re.search("launcher: data_", line)]
            epochs = [EPOCH.format(epoch=n, total=each) for n, each in enumerate(seconds)]
            log.write_text("\n".join([*kept, *epochs, ""]))
        runner = CliRunner(env={"LAUNCHER_HOME": str(home), "LAUNCHER_PRICES": None})
        return runner.invoke(main, ["compare", "done-job", "failed-job", *options])

    return compared


def test_the_price_of_the_same_work(compared):
    found = compared([20.0, 10.0, 10.1, 9.9, 10.0], [9.0, 5.0, 5.1, 4.9, 5.0])

    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["done-job", "failed-job"]
    assert lines[1].split() == ["status", "Completed", "Failed"]
    assert lines[2].split("  ")[-1].strip() == "this machine"
    assert lines[3].split("  ")[-1].strip() == "1 x ml.g4dn.xlarge"
    assert lines[4].split("  ")[-1].strip() == "1 x ml.c5.2xlarge"
    assert lines[5].startswith("step             200 +- ")
    assert lines[6].split() == ["samples/s", "160", "320"]
    assert lines[7].split() == ["per", "hour", "$1.14*", "$1.14*"]  # 0.7364 + 0.408
    assert any(line.startswith("time per step    -  ") for line in lines)
    assert any(line.startswith("price per step   -  ") for line in lines)
    assert "-50% (-5" in found.stdout
    assert "* ran on this machine" in found.stdout
    assert "on-demand prices of July 2026 (2 months old; `launcher plan" in found.stdout


def test_an_old_price_is_said_to_be_old(compared, tmp_path):
    (tmp_path / "home" / "prices.csv").write_text(
        "instance_type,price_per_hour,as_of\nml.g4dn.xlarge,0.7,2022-10\n"
    )
    found = compared([20.0, 10.0, 10.1, 9.9, 10.0], [9.0, 5.0, 5.1, 4.9, 5.0])

    assert "prices.csv) of October 2022* (47 months old)." in found.stdout


def test_json_and_csv_have_the_figures_of_each_job(compared):
    epochs = ([20.0, 10.0, 10.1, 9.9], [9.0, 5.0])
    found = json.loads(compared(*epochs, "--json").stdout)
    assert json.loads(compared(*epochs, "-o", "json").stdout) == found
    first, second = found["jobs"]
    assert (first["step"]["steps"], first["step"]["mean"]) == (150, pytest.approx(0.2))
    assert (first["is_priced_by_type"], first["price_change"]) == (True, None)
    assert first["total"] == pytest.approx((0.7364 + 0.408) / 3600 * first["billable_seconds"])
    assert second["price_change"]["expected"] == pytest.approx(-0.5, abs=0.01)
    assert second["price_change"]["low"] is None

    rows = list(csv.DictReader(io.StringIO(compared(*epochs, "-o", "csv").stdout)))
    assert [row["job_name"] for row in rows] == ["done-job", "failed-job"]
    assert float(rows[0]["step.mean"]) == pytest.approx(0.2)
    assert float(rows[1]["price_change.expected"]) == pytest.approx(-0.5, abs=0.01)
    assert json.loads(rows[0]["groups"])[0]["count"] == 1


def test_untimed_jobs_have_no_price_of_a_step(compared):
    found = compared([], [])

    assert found.exit_code == 0
    assert "unknown" in found.stdout
    assert "A step is timed in jobs that" in found.stdout
