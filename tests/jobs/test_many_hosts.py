"""The logs of more hosts than CloudWatch lists at once, followed over HTTP while they are written.

The follower is a process of its own, which fails for a line that is lost, repeated or not in order;
all hosts are restarted once (benchmarks/log_follow.py has it all).
"""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from log_follow import measure


@pytest.mark.long
def test_more_hosts_than_a_page_of_streams_has(offline):
    assert measure(hosts=52, lines=520, live_rounds=1).lines == 520


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_thousand_lines_of_three_hundred_hosts_in_the_memory_of_few(offline):
    few = measure(hosts=300, lines=20_000)
    many = measure(hosts=300, lines=200_000)
    assert (few.lines, many.lines) == (19_800, 199_800)
    assert many.peak_mib < few.peak_mib + 20
