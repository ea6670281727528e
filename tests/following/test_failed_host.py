"""Which host is told to have failed first."""

import pytest

from launcher.client.jobs.failed_host import find_failed_host, host_of_reason
from launcher.client.jobs.log_line import LogLine
from launcher.shared import format_event

HOSTS = ["algo-1", "algo-2", "algo-12"]


def line(host, text, time=0.0):
    return LogLine(group="train", host=host, text=text, time=time)


@pytest.mark.parametrize(
    ("reason", "host"),
    [
        ("AlgorithmError: host algo-12 (train_group), rank 1: killed by SIGKILL", "algo-12"),
        ("host algo-2 (data): lost; algo-1 saw it", "algo-2"),
        ("algo-7 is not a host of this job", None),
        ("AlgorithmError: , exit code: 1", None),
    ],
)
def test_the_first_host_that_the_reason_names(reason, host):
    assert host_of_reason(reason, HOSTS) == host


def test_a_job_of_one_host_needs_no_name():
    assert host_of_reason("AlgorithmError: , exit code: 1", ["algo-1"]) == "algo-1"


def test_without_a_name_in_the_reason_the_first_host_that_reported_a_failure():
    words = format_event("host_failed", host="algo-2", group="train", cause="no luck", of_rank=1)
    lines = [line("algo-1", "one"), line("algo-2", "two"), line("algo-2", words)]
    later = format_event("host_failed", host="algo-1", group="train", cause="peer lost", of_rank=0)
    failed = find_failed_host([*lines, line("algo-1", later)])
    assert failed.host == "algo-2"
    assert failed.lines == ("two", 'launcher: host_failed cause="no luck" of_rank=1')


def test_without_a_reported_failure_no_host_is_blamed():
    assert find_failed_host([line("algo-1", "one"), line("algo-2", "two")]) is None
    assert find_failed_host([]) is None
