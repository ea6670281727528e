"""`launcher plan`."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from price_lists import Offer, csv_file, serving

from launcher import JobSpec
from launcher.client import catalogue
from launcher.client.cli import main

WORKLOAD = """\
batch_size: 64
cpu_seconds_per_sample: {mean: 0.01, low: 0.009, high: 0.012}
bytes_per_batch: 1000000
gpu_seconds_per_step: {NVIDIA A10G: 0.05}
samples_per_epoch: 100000
cpu_seconds_per_batch: 0
start_seconds: 0
cpu_speed: {c5: 1, g5: 1, m5: 1}
datasets: ["pipeline:train_set"]
"""


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(WORKLOAD)

    def run(*words, home=tmp_path):
        runner = CliRunner(env={"LAUNCHER_HOME": str(home), "LAUNCHER_PRICES": None})
        words = ["plan", "--workload", "w.yaml", *words]
        return runner.invoke(main, words, catch_exceptions=False)

    return run


def test_csv_has_a_row_for_each_cluster(launcher):
    rows = list(csv.DictReader(io.StringIO(launcher("--limit", "3", "-o", "csv").stdout)))
    plan = json.loads(launcher("--limit", "3", "--json").stdout)

    assert [each["train.instance_type"] for each in rows] == [
        each["train"]["instance_type"] for each in plan["clusters"]
    ]
    best = plan["recommended"]
    assert float(rows[0]["step_seconds.expected"]) == best["step_seconds"]["expected"]
    assert float(rows[0]["per_hour"]) == best["per_hour"]


def test_json_has_the_answer_and_every_number(launcher):
    plan = json.loads(launcher("--epochs", "10", "--limit", "3", "-o", "json").stdout)
    best = plan["recommended"]

    assert best in plan["clusters"]
    assert 3 <= len(plan["clusters"]) <= 4
    assert best["step_seconds"]["expected"] == max(best["limits"].values())
    assert best["total"]["expected"] == pytest.approx(
        best["steps_per_epoch"] * 10 * best["per_step"]["expected"]
    )
    assert best["hours"]["expected"] == pytest.approx(
        best["steps_per_epoch"] * 10 * best["step_seconds"]["expected"] / 3600
    )
    assert best["train"]["price_as_of"] == "2026-07"
    assert "ml.p5.48xlarge" in plan["time_unknown"]


def test_explain_has_the_totals_the_ends_and_every_shown_cluster(launcher):
    words = ["--gpu-types", "g5.xlarge,g5.16xlarge", "--epochs", "10", "--limit", "100"]
    shown = launcher(*words, "--explain").stdout
    plan = json.loads(launcher(*words, "-o", "json").stdout)
    alone = next(
        each
        for each in plan["clusters"]
        if each["data"] is None and each["train"]["instance_type"] == "ml.g5.xlarge"
    )

    assert alone["explanation"][-2:] == [
        "hours: (10 epochs x 1563 steps x 0.2133 s + 0 s of its start) / 3600 = 0.9262 (0.8336 to "
        "1.111)",
        "total: 0.9262 hours x $1.408 = $1.30 ($1.17 to $1.56)",
    ]
    assert "step at least: 192 ms, with each measure at its low end" in alone["explanation"]
    assert "step at most: 256 ms, with each measure at its high end" in alone["explanation"]
    assert plan["explanation"] == plan["recommended"]["explanation"]
    text = "\n".join(f"  {line}" for line in alone["explanation"])
    assert f"a step waits for its train CPUs\n{text}\n" in shown


def test_every_cluster_has_its_reason(launcher):
    words = ["--gpu-types", "g5.xlarge,g5.16xlarge", "--limit", "100", "-o", "json"]
    plan = json.loads(launcher(*words).stdout)

    best = plan["recommended"]
    assert best["reason"] == "recommended"
    larger = next(each for each in plan["clusters"] if each["train"] != best["train"])
    dearer = larger["per_step"]["expected"] / best["per_step"]["expected"] - 1
    assert larger["reason"] == (
        f"{dearer:.1%} dearer and as fast per sample; a step waits for its accelerator"
    )


def test_regions_are_named_where_there_are_several(launcher, tmp_path):
    (tmp_path / "prices.csv").write_text(
        "instance_type,price_per_hour,region\nml.g5.16xlarge,4,us-west-2\n"
    )
    lines = launcher("--gpu-types", "g5.16xlarge", "--regions", "us-east-1,us-west-2").stdout
    rows = [line.split()[:4] for line in lines.splitlines() if "-1  " in line or "-2  " in line]

    assert rows[0] == ["us-west-2", "1", "x", "ml.g5.16xlarge"]
    assert ["us-east-1", "1", "x", "ml.g5.16xlarge"] in rows


def test_write_makes_a_job_file_with_the_recommended_groups(launcher, tmp_path):
    result = launcher("--gpu-types", "ml.g5.12xlarge", "--write", "job.yaml")
    job = JobSpec.from_yaml(tmp_path / "job.yaml")
    best = json.loads(launcher("--gpu-types", "ml.g5.12xlarge", "-o", "json").stdout)["recommended"]

    assert result.exit_code == 0
    groups = {each.instance_group_name: each for each in job.instance_groups}
    data, train = groups["data_group"], groups["train_group"]
    assert (data.instance_type, data.instance_count) == (
        best["data"]["instance_type"],
        best["data"]["count"],
    )
    assert (train.instance_type, train.instance_count) == ("ml.g5.12xlarge", 1)
    assert list(job.data_service.datasets) == ["pipeline:train_set"]
    assert job.data_service.local_workers == 48 - 4
    assert "`launcher check job.yaml` checks it" in result.stderr


def test_write_makes_a_job_of_one_group_where_that_is_best(launcher, tmp_path):
    launcher("--gpu-types", "ml.g5.16xlarge", "--write", "job.yaml")
    job = JobSpec.from_yaml(tmp_path / "job.yaml")

    assert (job.instance_type, job.instance_count) == ("ml.g5.16xlarge", 1)
    assert job.data_service is not None
    assert job.data_service.local_workers == 63  # without them, the rank would prepare alone


def test_write_sets_the_workers_of_samples_that_wait_for_storage(launcher, tmp_path):
    with (tmp_path / "w.yaml").open("a") as file:
        file.write("wait_seconds_per_sample: 0.02\nbytes_per_worker: 1e8\n")
    result = launcher("--gpu-types", "ml.g5.xlarge", "--write", "job.yaml")
    job = JobSpec.from_yaml(tmp_path / "job.yaml")

    assert "30 ms, so a vCPU has up to 8 workers" in result.stdout
    data, _ = job.instance_groups
    assert job.data_service.local_workers == 3 * 3
    assert job.data_service.workers_per_host == 3 * catalogue.find(data.instance_type).vcpu


@pytest.mark.parametrize("there", ["job.yaml", "plan.html"])
def test_a_file_that_is_there_is_kept_and_no_job_is_written(launcher, tmp_path, there):
    (tmp_path / there).write_text("mine")
    result = launcher("--write", "job.yaml", "--html", "plan.html")

    assert result.exit_code == 2
    assert f"{there} exists already" in result.stderr
    assert [each.name for each in tmp_path.iterdir() if each.name != "w.yaml"] == [there]
    assert (tmp_path / there).read_text() == "mine"


def test_no_cluster_within_the_limits_is_exit_code_1(launcher, tmp_path):
    result = launcher("--max-cost-per-hour", "0.5", "--write", "job.yaml")

    assert result.exit_code == 2  # there is nothing to write
    assert not (tmp_path / "job.yaml").exists()
    assert launcher("--max-cost-per-hour", "0.5").exit_code == 1


def test_a_deadline_and_an_order_by_time(launcher):
    cheap = json.loads(launcher("--epochs", "100", "-o", "json").stdout)["recommended"]
    fast = json.loads(
        launcher("--epochs", "100", "--sort", "time", "--train-hosts", "1,2,4", "-o", "json").stdout
    )["recommended"]

    assert fast["hours"]["expected"] < cheap["hours"]["expected"]
    hours = str(fast["hours"]["expected"] * 1.05)
    words = ["--epochs", "100", "--deadline", hours, "--train-hosts", "1,2,4", "-o", "json"]
    within = json.loads(launcher(*words).stdout)["recommended"]
    assert within["hours"]["expected"] <= float(hours)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpu-types", "ml.g5.xlrge"], "fix: did you mean ml.g5.xlarge?"),
        (["--train-hosts", "two"], "write numbers above 0, such as 1,2,4"),
        (["--deadline", "0"], "0"),
        (["--regions", ","], "write regions, such as us-east-1,eu-west-1"),
        (["--gpu-types", "c5.xlarge"], "c5.xlarge has no accelerator to train on"),
    ],
)
def test_a_wrong_option_is_a_usage_error(launcher, words, said):
    result = launcher(*words)

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_wrong_workload_is_reported_with_its_line(launcher, tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("0.05", "fast"))
    result = launcher("-o", "json")

    assert result.exit_code == 2
    (problem,) = json.loads(result.stdout)["error"]["problems"]
    assert problem["where"] == "w.yaml:4 (gpu_seconds_per_step.NVIDIA A10G)"


def test_spot_prices_of_your_own_are_named_as_a_range(launcher, tmp_path):
    (tmp_path / "prices.csv").write_text(
        "instance_type,price_per_hour,spot_low,spot_high\n"
        "ml.g5.xlarge,1.408,0.4,0.7\nml.m5.large,0.05,0.03,0.05\n"
    )
    words = ["--gpu-types", "g5.xlarge"]

    assert "the recommended cluster costs $0.55 to $0.95 an hour" in launcher(*words).stdout
    best = json.loads(launcher(*words, "-o", "json").stdout)["recommended"]
    assert best["data"]["count"] == 5
    assert best["spot_per_hour"] == pytest.approx([0.55, 0.95])


def test_the_guide_shows_what_is_printed_for_its_workload(launcher, tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "planning.md").read_text()
    (tmp_path / "w.yaml").write_text(re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)[0])
    command, *shown = re.findall(r"```console\n\$ (launcher plan --.*?)```", guide, re.DOTALL)[
        0
    ].splitlines()
    printed = launcher(*command.split()[4:]).stdout.splitlines()

    assert printed[:3] == shown[:3]
    assert [line.split()[:8] for line in printed[4:9]] == [line.split()[:8] for line in shown[4:9]]


PAID = {"g5.xlarge": 1.408, "g5.2xlarge": 1.515, "g5.12xlarge": 5.67, "m5.large": 0.115}


def test_one_question_is_answered_as_shipped_after_an_update_and_without_prices(
    offline, launcher, tmp_path
):
    docs = Path(__file__).parents[2] / "docs"
    guide = (docs / "guides" / "planning.md").read_text()
    page = (docs / "reference" / "planner.md").read_text()
    (tmp_path / "w.yaml").write_text(re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)[0])
    shown = re.findall(r"\$ launcher plan --workload w.yaml --limit 2\n(.*?)```", page, re.DOTALL)
    listed = [{}, PAID | {"c5.2xlarge": 0.408}, {"c5.2xlarge": 0.408}]
    for number, (answer, paid) in enumerate(zip(shown, listed, strict=True)):
        home = tmp_path / str(number)
        if paid:
            list_prices(home, paid)
        printed = launcher("--limit", "2", home=home).stdout.splitlines()
        lines = answer.split("\n\nPrice")[0].splitlines()
        assert [each.split()[:8] for each in printed[: len(lines)]] == [
            each.split()[:8] for each in lines
        ]


def list_prices(home, paid):
    """Update the prices of a home from a list of AWS with these training types."""
    offers = [Offer(f"USE1-Train:ml.{name}", str(dollars)) for name, dollars in paid.items()]
    with serving() as server:
        server.put(csv_file(offers))
        env = {"LAUNCHER_HOME": str(home), "LAUNCHER_PRICE_LIST": server.address}
        update = ["plan", "types", "--update"]
        assert CliRunner(env=env).invoke(main, update, catch_exceptions=False).exit_code == 0
