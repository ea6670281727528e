"""A summary as a person reads it, while the job runs."""

import click
import pytest

from launcher.client.cli import wrapped
from launcher.client.jobs import summary_text

RUNNING = {
    "name": "rings-1",
    "status": "InProgress",
    "secondary_status": "Training",
    "failure_reason": None,
    "interruptions": 0,
    "failed_host": None,
    "logs_refused": None,
    "failure": None,
    "cost": None,
    "exit_code": None,
    "model_artifacts": None,
    "groups": [],
    "metrics": {},
    "data": {
        "batches_by_host": {},
        "batches_received": {"0": 64},
        "wait_share": 0.2,
        "skipped": 0,
        "warnings": [],
        "metrics": {},
        "verdict": None,
    },
}


def test_the_first_line_on_data_is_labelled_before_hosts_have_counted():
    assert "\nData     20.0% of step time spent waiting for data\n" in summary_text(RUNNING)


def test_the_lines_on_data_are_aligned_at_the_end():
    data = RUNNING["data"] | {"batches_by_host": {"algo-1": 64}, "wait_share": None}
    screen = summary_text(RUNNING | {"data": data})
    assert "\nData     64 batches prepared (algo-1 64)\n" in screen
    assert "\n         64 batches received (rank 0 64)\n" in screen


def test_the_verdict_replaces_the_share():
    text = "input-bound 37% of the time: about 6 more vCPU in data_group would remove it"
    data = RUNNING["data"] | {"verdict": {"text": text}}
    screen = summary_text(RUNNING | {"data": data})
    assert f"\nData     {text}\n" in screen
    assert "of step time" not in screen


def test_skipped_samples_and_possible_mistakes_are_reported():
    data = RUNNING["data"] | {"skipped": 3, "warnings": ["train: ranks begin apart"]}
    screen = summary_text(RUNNING | {"data": data})
    assert "3 samples skipped because they raised" in screen
    assert "\n         train: ranks begin apart\n" in screen


COST = {
    "dollars": 12.31,
    "max_dollars": 48.96,
    "by_group": {"data_group": 2.31, "train_group": 10.0},
    "spot_saving": 0.7,
    "prices": ["us-east-1 on-demand prices of July 2026; eu-west-1 differs"],
    "unknown_prices": [],
}
ENDED = RUNNING | {"status": "Completed", "secondary_status": "Completed", "exit_code": 0}


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "\n"), (1, ", interrupted once\n"), (3, ", interrupted 3 times\n")]
)
def test_the_interruptions_of_spot_instances_are_counted(count, shown):
    screen = summary_text(ENDED | {"interruptions": count})
    assert f"\nStatus   Completed{shown}" in screen


def test_a_local_job_shows_no_cost():
    assert "Cost" not in summary_text(RUNNING)
    assert "$" not in summary_text(ENDED)


def test_the_cost_is_an_estimate_for_each_group_with_the_saving_of_spot_instances():
    assert (
        "\nCost     $12.31 (max $48.96), an estimate without storage"
        "\n         data_group $2.31, train_group $10.00"
        "\n         us-east-1 on-demand prices of July 2026; eu-west-1 differs"
        "\nSpot     70.0% saved\n"
    ) in summary_text(ENDED | {"cost": COST})


def test_while_the_job_runs_only_its_maximum_is_shown():
    running = COST | {"dollars": None, "spot_saving": None}
    screen = summary_text(RUNNING | {"cost": running})
    assert "\nCost     known once the job has ended (max $48.96)\n" in screen
    assert "data_group" not in screen


def test_an_unknown_price_is_shown():
    cost = COST | {"dollars": None, "max_dollars": None, "unknown_prices": ["ml.p4d.24xlarge"]}
    screen = summary_text(ENDED | {"cost": cost})
    assert "\nCost     unknown (max unknown): the price of ml.p4d.24xlarge is unknown" in screen


def test_long_lines_continue_below_their_value():
    text = "Cause    algo-1 (train): a rather long cause of a failure\nTry      more"
    assert wrapped(text, 30).splitlines() == [
        "Cause    algo-1 (train): a",
        "         rather long cause of",
        "         a failure",
        "Try      more",
    ]
    assert ("b" * 40) in wrapped("Model    s3://a/" + "b" * 40, 30)


@pytest.mark.timeout(60)
def test_blanks_without_an_end_are_wrapped_in_time() -> None:
    assert wrapped("Cause    a" + " " * 1_000_000, 30) == "Cause    a"


def test_colours_and_wide_characters_count_as_the_columns_that_they_take() -> None:
    red = click.style("b" * 20, fg="red")
    assert wrapped(f"Cause    {red} x", 31).splitlines() == [f"Cause    {red} x"]
    assert wrapped("Cause    日本語日本語 次", 22).splitlines() == [
        "Cause    日本語日本語",
        "         次",
    ]
