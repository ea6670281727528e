"""A summary as a person reads it, while the job runs."""

from launcher.cli.screen import summary_screen

RUNNING = {
    "name": "rings-1",
    "status": "InProgress",
    "secondary_status": "Training",
    "failure_reason": None,
    "failed_host": None,
    "cost": None,
    "exit_code": None,
    "model_artifacts": None,
    "groups": [],
    "metrics": {},
    "data": {"batches_by_host": {}, "batches_received": {"0": 64}, "wait_share": 0.2},
}


def test_the_first_line_on_data_says_that_it_is_one_before_hosts_have_counted_too():
    assert "\nData     20.0% of step time spent waiting for data\n" in summary_screen(RUNNING)


def test_the_lines_on_data_stand_below_each_other_at_the_end():
    data = {"batches_by_host": {"algo-1": 64}, "batches_received": {"0": 64}, "wait_share": None}
    screen = summary_screen(RUNNING | {"data": data})
    assert "\nData     64 batches prepared (algo-1 64)\n" in screen
    assert "\n         64 batches received (rank 0 64)\n" in screen
