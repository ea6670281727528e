"""Line charts and tables of metrics: what stands where."""

import pytest

from launcher.client.cli import line_chart, metric_charts
from launcher.client.jobs import JobMetrics, MetricRecord, metric_table
from launcher.client.show import short_number, table_text

NAN = float("nan")


def record(name, value, time, host="algo-1", group="train_group"):
    return MetricRecord(metric_name=name, value=value, time=time, host=host, group=group)


def metrics(*records, defined=("loss",)):
    return JobMetrics(job_name="job-1", records=records, defined=defined)


def test_a_line_goes_from_its_first_point_to_its_last():
    assert line_chart([[(0.0, 1.0), (10.0, 0.0)]], start=0.0, end=10.0, width=10) == [
        "1 ⠑⢄      ",
        "    ⠑⢄    ",
        "      ⠑⢄  ",
        "0       ⠑⢄",
    ]


@pytest.mark.parametrize("value", [0.0, -3.5, 1e308, 5e-324])
def test_equal_values_are_a_level_line(value):
    rows = line_chart([[(0.0, value), (10.0, value)]], start=0.0, end=10.0, width=20)
    margin = len(short_number(value)) + 1
    assert [bool(row[margin:].strip()) for row in rows].count(True) == 1


def test_extreme_values_fit():
    rows = line_chart([[(0.0, -1.7e308), (1.0, 1.7e308)]], start=0.0, end=1.0, width=40)
    assert {len(row) for row in rows} == {40}
    assert rows[0].split()[0] == "1.7e+308"


def test_one_value_is_a_dot():
    [*_, last] = line_chart([[(5.0, 1.0)], []], start=5.0, end=5.0, width=12)
    assert last.split() == ["1"]


def test_charts_stand_beside_each_other_in_80_columns():
    hosts = [("algo-1", "data_group"), ("algo-2", "data_group"), ("algo-3", "train_group")]
    cpu = [
        record("host/cpu", value / 10, value * 10.0, *host) for value in range(5) for host in hosts
    ]
    lines = metric_charts(metrics(record("loss", 0.5, 0.0, *hosts[2]), *cpu), 80)
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines if "/" in line or "loss" in line] == [
        ["loss", "train_group", "0.5", "host/cpu", "data_group", "0.4"],  # both hosts in one chart
        ["host/cpu", "train_group", "0.4"],
    ]
    assert lines[-1] == "40s from the left to the right edge"
    assert len(metric_charts(metrics(*cpu), 39)) == 13  # below each other
    assert max(map(len, metric_charts(metrics(*cpu), 30))) <= 36


@pytest.mark.parametrize(
    ("width", "heading"),
    [(1, "… 0.25"), (4, "… 0.25"), (5, "… 0.25"), (6, "… 0.25"), (8, "lo… 0.25")],
)
def test_a_terminal_that_is_narrower_than_a_value_shows_it_all_the_same(width, heading):
    assert metric_charts(metrics(record("loss", 0.25, 0.0)), width)[0] == heading


def test_names_of_others_are_cut_and_control_nothing():
    name = "\x1b]0;title\x07" + "very_long_name" * 5
    [heading, *_] = metric_charts(metrics(record(name, 1.0, 0.0)), 80)
    assert heading.split() == [r"\x1b]0;title\x07" + "very_long_namevery_l…", "1"]
    assert "\x1b" not in table_text(metric_table(metrics(record(name, 1.0, 0.0))))


def test_a_table_has_a_row_for_each_host():
    of_host = [record("loss", value, 1.0, "algo-10") for value in (3.0, 1.0, 2.0)]
    found = metrics(*of_host, record("loss", float("inf"), 2.0), record("a", 1.0, 1))
    assert [list(row) for row in metric_table(found).rows] == [
        ["loss", "train_group", "algo-1", "1", "inf", "inf", "inf", "inf"],
        ["loss", "train_group", "algo-10", "3", "3", "1", "3", "2"],
        ["a", "train_group", "algo-1", "1", "1", "1", "1", "1"],
    ]


def test_without_values_nothing_is_drawn():
    assert metric_charts(metrics(), 80) == []


def test_a_loss_that_became_nan_is_not_shown_as_its_last_number():
    found = metrics(*(record("loss", value, at) for at, value in enumerate((2.5, 0.5, NAN, NAN))))
    assert list(metric_table(found).rows[0])[3:] == ["4", "2.5", "0.5", "2.5", "nan"]
    [heading, *rows] = metric_charts(found, 80)
    assert heading.split() == ["loss", "train_group", "nan"]
    assert rows[0].split()[0] == "2.5"
    assert ">nan</td>" in found._repr_html_()
    assert [each.values for each in found.series] == [(2.5, 0.5)]


def test_a_metric_that_is_always_nan_has_a_row_and_a_heading():
    found = metrics(*(record("loss", NAN, at) for at in (0.0, 2.0)), record("a", 1.0, 1.0))
    assert list(metric_table(found).rows[0]) == [
        *("loss", "train_group", "algo-1"),
        *("2", "nan", "nan", "nan", "nan"),
    ]
    assert metric_charts(found, 80)[0].split() == [
        "loss",
        "train_group",
        "nan",
        "a",
        "train_group",
        "1",
    ]
    assert "<svg" not in metrics(record("loss", NAN, 0.0))._repr_html_()
    assert found.series[0].metric_name == "a"
