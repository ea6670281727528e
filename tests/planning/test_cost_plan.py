"""What is said before a job is sent: machines, what they may cost, and the ceiling."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.client.planning import CostPlan, cost_table, enforce_max_cost, plan_job
from launcher.client.request import JobLocation
from launcher.client.sessions import AwsSession, LocalSession
from launcher.client.show import table_text
from launcher.client.spec import InstanceGroup, JobSpec
from launcher.errors import Problem, SpecError
from launcher.shared import Role

TWO_GROUPS = JobSpec(
    entry_point="train.py",
    instance_groups=[
        InstanceGroup("data_group", "ml.c5.9xlarge", 2, Role.DATA),
        InstanceGroup("train_group", "ml.g5.12xlarge", 1),
    ],
    max_run=4 * 3600,
)
PLACEMENT = JobLocation(
    job_name="digits-1",
    role_arn="arn:aws:iam::111122223333:role/Training",
    image_uri="image:1",
    code_uri="s3://bucket/code/digits-1/code/",
    output_uri="s3://bucket/output",
    token="secret",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, offline: pytest.MonkeyPatch) -> Path:
    offline.setenv("LAUNCHER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def priced(home: Path) -> Path:
    """The price of volumes in us-east-1, whose instances Launcher knows."""
    file = home / "prices.csv"
    file.write_text("instance_type,price_per_hour,region\nstorage,0.14,us-east-1\n")
    return file


def one(instance_type: str, count: int = 1) -> dict[str, object]:
    return {"instance_groups": (), "instance_type": instance_type, "instance_count": count}


def refusal(ceiling: float, **changes: object) -> Problem:
    """The only problem of a job with that ceiling."""
    with pytest.raises(SpecError) as caught:
        enforce_max_cost(plan(**changes), ceiling, "--max-cost")
    (problem,) = caught.value.problems
    return problem


def plan(spec: JobSpec = TWO_GROUPS, region: str = "us-east-1", **changes: object) -> CostPlan:
    return plan_job(spec.replace(**changes), AwsSession(region), PLACEMENT)


def test_a_plan_of_two_groups_reads_so() -> None:
    assert repr(plan(region="eu-west-1", use_spot_instances=True)) == (
        "group        role   type            count  vCPU  GPU          $/h   max $\n"
        "data_group   data   ml.c5.9xlarge       2    72  -          $3.67  $14.69\n"
        "train_group  train  ml.g5.12xlarge      1    48  4 x A10G   $7.09  $28.36\n"
        "total                                   3                  $10.76  $43.05\n"
        "\n"
        "Estimate max $ is reached after 4h00m (max_run); storage and traffic are not included\n"
        "Prices   us-east-1 on-demand prices of July 2026 (2 months old; "
        "`launcher plan types --update --region eu-west-1` reads AWS's); eu-west-1 differs\n"
        "Spot     costs less than this; the saving is known after the job\n"
        "Region   eu-west-1, account 111122223333\n"
        "Image    image:1\n"
        "Code     s3://bucket/code/digits-1/code/\n"
        "Output   s3://bucket/output/digits-1/output/"
    )


def test_volumes_of_a_known_price_are_a_row_and_in_the_total(home: Path) -> None:
    """Two c5.9xlarge have 30 GB each; the g5.12xlarge has disks."""
    (home / "prices.csv").write_text("instance_type,price_per_hour\nstorage,67.2\n")
    rows = {line.split()[0]: line.split()[-2:] for line in repr(plan()).splitlines() if line}
    assert rows["volumes"] == ["$6.00", "$24.00"]
    assert rows["total"] == ["$16.76", "$67.05"]
    assert "traffic is not included" in repr(plan())


def test_one_group_needs_no_total() -> None:
    lines = repr(plan(**one("ml.m5.xlarge", 3)))
    assert "total" not in lines
    assert "$0.69  $2.76" in lines


def test_what_is_unknown_is_reported_with_the_fix(home: Path) -> None:
    text = repr(plan(**one("ml.p5e.48xlarge", 4)))
    assert "32 x H200  unknown  unknown" in text
    assert f'"ml.p5e.48xlarge,DOLLARS" to {home / "prices.csv"}' in text
    row = repr(plan(**one("ml.x9.large")))
    assert row.splitlines()[1].split()[2:] == ["ml.x9.large", "1", *["unknown"] * 4]


def test_on_a_narrow_terminal_each_group_has_lines_of_its_own() -> None:
    table = repr(plan()).partition("\n\n")[0]
    assert table_text(cost_table(plan()), width=len(table.splitlines()[0])).startswith(table)

    stacked = table_text(cost_table(plan()), width=40).partition("\n\n")[0].splitlines()
    assert stacked[:3] == ["data_group", "  role   data", "  type   ml.c5.9xlarge"]
    assert max(map(len, stacked)) <= 40


def test_a_notebook_shows_a_table_whose_texts_are_quoted() -> None:
    html = plan(instance_groups=[InstanceGroup("<b>", "ml.c5.xlarge", 1)])._repr_html_()
    html = html.replace(' style="text-align:left"', "")
    assert "<td>&lt;b&gt;</td><td>train</td><td>ml.c5.xlarge</td>" in html
    assert "<b>" not in html


def test_on_this_machine_there_is_no_region(tmp_path: Path) -> None:
    text = repr(plan_job(TWO_GROUPS, LocalSession(tmp_path)))
    assert "other regions differ" in text


def test_alternatives_are_shown_and_the_dearest_counts() -> None:
    dear = plan(
        instance_groups=[
            InstanceGroup("data_group", "ml.c5.9xlarge", 2, Role.DATA),
            InstanceGroup(
                "train_group", "ml.g5.xlarge", 1, alternatives=["ml.g5.48xlarge", "ml.g5.2xlarge"]
            ),
        ]
    )
    assert repr(dear).splitlines()[2:6] == [
        "train_group  train  ml.g5.xlarge        1     4  1 x A10G   $1.41   $5.63",
        "             or     ml.g5.48xlarge      1   192  8 x A10G  $20.36  $81.44",
        "             or     ml.g5.2xlarge       1     8  1 x A10G   $1.51   $6.06",
        "total                                   3                   $5.08  $96.13",
    ]
    assert "with the most expensive types" in repr(dear)


def test_an_alternative_without_a_price_leaves_the_most_unknown() -> None:
    group = InstanceGroup("all", "ml.g5.xlarge", 1, alternatives=["ml.p5e.48xlarge"])
    assert plan(instance_groups=[group]).max_dollars is None


def test_a_warm_pool_is_billed_after_the_job() -> None:
    kept = plan(keep_alive_period_in_seconds=3600)
    assert "4h00m (max_run) and 1h00m as a warm pool" in repr(kept)
    assert kept.max_dollars == pytest.approx(43.048 * 5 / 4)


@pytest.mark.parametrize("ceiling", [43.46, 100])
def test_a_job_below_the_ceiling_may_be_sent(priced: Path, ceiling: float) -> None:
    enforce_max_cost(plan(), ceiling, "--max-cost")


def test_a_job_above_the_ceiling_is_refused_with_the_time_that_would_do(priced: Path) -> None:
    problem = refusal(20)
    assert problem.what == (
        "the job may cost $43.46 in 4h02m with its volumes and its stop, more than $20.00"
    )
    assert problem.where == "--max-cost"
    assert "6562 s" in problem.fix

    enforce_max_cost(plan(max_run=6562), 20, "--max-cost")
    refusal(20, max_run=6563)


DEAR = InstanceGroup("all", "ml.g5.xlarge", 1, alternatives=["ml.g5.48xlarge"])
SPOT = {"use_spot_instances": True, "max_wait": 8 * 3600}


@pytest.mark.parametrize(
    ("ceiling", "changes", "what", "fix"),
    [  # the dearest alternative costs 20.36 an hour
        (82.11, {"instance_groups": [DEAR]}, "may cost $82.12 in 4h02m", ""),
        (20, {"keep_alive_period_in_seconds": 3600}, "more than $20.00", "2962 s"),
        (86, SPOT, "in 8h02m ", "set max_wait to at most"),
        (0, {}, "more than $0.00", "fewer or smaller"),
        (float("nan"), {}, "more than $nan", "fewer or smaller"),
    ],
    ids=["alternative", "warm pool", "wait for spot instances", "no money", "no number"],
)
def test_what_a_job_may_cost_has_all_of_it(
    priced: Path, ceiling: float, changes: dict[str, object], what: str, fix: str
) -> None:
    problem = refusal(ceiling, **changes)
    assert what in problem.what
    assert fix in problem.fix


def test_the_wait_for_spot_instances_may_be_paid(priced: Path) -> None:
    enforce_max_cost(plan(**SPOT), 86.6, "--max-cost")


def test_the_volumes_of_all_hosts_count(priced: Path) -> None:
    many = {**one("ml.c5.xlarge", 65), "volume_size": 1000, "max_run": 28 * 24 * 3600}
    hours = 28 * 24 + 120 / 3600
    least = 65 * (0.204 + 1000 * 0.14 / (28 * 24)) * hours
    assert least > 65 * 0.204 * hours + 9_100, "65,000 GB for a month"
    assert "more than" in refusal(least - 0.01, **many).what
    enforce_max_cost(plan(**many), least + 0.01, "--max-cost")


def test_hosts_with_disks_of_their_own_have_no_volume() -> None:
    group = InstanceGroup("all", "ml.g5.xlarge", 1)
    enforce_max_cost(plan(instance_groups=[group], volume_size=1000), 6, "--max-cost")


@pytest.mark.parametrize("region", ["sa-east-1", "eu-west-1"])
def test_prices_of_another_region_bound_nothing(priced: Path, region: str) -> None:
    problem = refusal(1e9, region=region)
    assert problem.what.startswith(
        f"today's price of ml.c5.9xlarge, ml.g5.12xlarge, storage in {region} is unknown"
    )
    assert f"`launcher plan types --update --region {region}`" in problem.fix


@pytest.mark.parametrize("rows", ["", "storage,0.14,2020-01\nml.c5.9xlarge,1.8,2026-11\n"])
def test_a_volume_without_a_price_of_today_bounds_nothing(home: Path, rows: str) -> None:
    (home / "prices.csv").write_text(f"instance_type,price_per_hour,as_of\n{rows}")
    assert "price of storage in us-east-1 is unknown" in refusal(1e9).what


@pytest.mark.parametrize("field", ["rules", "profiler_rules"])
def test_a_rule_on_an_instance_of_its_own_bounds_nothing(priced: Path, field: str) -> None:
    built_in = {"RuleConfigurationName": "loss", "RuleEvaluatorImage": "image"}
    enforce_max_cost(plan(**{field: (built_in,)}), 1e9, "--max-cost")
    own = {**built_in, "RuleConfigurationName": "mine", "InstanceType": "ml.t3.medium"}
    problem = refusal(1e9, **{field: (built_in, own)})
    assert "the rule mine runs on an instance of its own" in problem.what
    assert problem.fix == "remove the rule, or omit --max-cost"


def test_a_ceiling_cannot_be_kept_when_a_price_is_unknown_until_the_user_brings_it(
    home: Path,
) -> None:
    dear = one("ml.p5e.48xlarge")
    assert "price of ml.p5e.48xlarge in us-east-1 is unknown" in refusal(1e9, **dear).what

    (home / "prices.csv").write_text("instance_type,price_per_hour\nml.p5e.48xlarge,25\n")
    enforce_max_cost(plan(**dear), 101, "--max-cost")
    assert "your own prices" in repr(plan(**dear))
