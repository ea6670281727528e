"""The lines of all hosts come out by time, each once, however late they can be seen."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from printed import Printed, PrintedLog

from launcher.client.jobs import MergedLog
from launcher.errors import CloudError, Unreachable

HOSTS = ["algo-1", "algo-2", "algo-3"]
GROUPS = {"algo-1": "data", "algo-2": "train", "algo-3": "train"}


def merged(log, **options):
    return MergedLog(log, "job", GROUPS, clock=log.clock, **options)


def line(stream, at, seen=None):
    seen = at if seen is None else seen
    return Printed(stream=stream, at=at, seen=seen, text=f"{stream} {at}")


@st.composite
def printed_logs(draw):
    """Up to two attempts of three hosts; a line is seen within the delay after it was printed."""
    delay = draw(st.sampled_from([0.0, 1.0, 10.0]))
    lines, number = [], 0
    for stream in draw(
        st.lists(st.sampled_from([f"{h}-{n}" for h in HOSTS for n in "12"]), unique=True)
    ):
        for at in sorted(draw(st.lists(st.integers(0, 100), max_size=20))):
            number += 1
            seen = at + delay * draw(st.floats(0, 1))
            lines.append(Printed(stream=stream, at=at, seen=seen, text=f"line {number}"))
    return lines, delay


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(printed_logs(), st.lists(st.floats(0, 130), max_size=12), st.integers(1, 60))
def test_every_line_once_and_by_time_whatever_the_delays(made, looks, buffered):
    lines, delay = made
    log = PrintedLog(lines, delay)
    merge = merged(log, buffered_lines=buffered)
    shown = []
    for now in sorted(looks):
        log.now = now
        shown += merge.ready()
    log.now = 200.0
    shown += merge.remaining()
    assert sorted(each.text for each in shown) == sorted(each.text for each in lines)
    assert [each.time for each in shown] == sorted(each.at for each in lines)
    assert max(log.pages, default=0) <= buffered


def test_a_silent_host_holds_the_others_back_for_the_delay_only():
    log = PrintedLog([line("algo-1-1", 0), line("algo-2-1", 100), line("algo-2-1", 104)], delay=5)
    merge = merged(log)
    log.now = 105.0
    assert [each.time for each in merge.ready()] == [0, 100]
    log.now = 109.0
    assert [each.time for each in merge.ready()] == [104]


def test_one_host_is_shown_at_once():
    log = PrintedLog([line("algo-2-1", 100)], delay=60)
    log.now = 100.0
    assert [each.group for each in merged(log, hosts={"algo-2"}).ready()] == ["train"]


def test_hosts_whose_clock_is_ahead_of_ours_are_not_waited_for():
    log = PrintedLog([line("algo-1-1", at, at - 60) for at in (100, 200)], delay=5)
    log.now = 140.0
    merge = merged(log)
    assert len([*merge.ready(), *merge.ready()]) == 1
    log.now = 146.0
    assert len(list(merge.ready())) == 1


def test_what_is_there_now_includes_lines_of_a_clock_ahead_of_ours():
    log = PrintedLog([line("algo-1-1", 100, 40), line("algo-2-1", 50)])
    log.now = 60.0
    assert [each.time for each in merged(log).snapshot()] == [50, 100]


def test_attempts_of_a_host_follow_each_other_and_nothing_is_repeated():
    log = PrintedLog(
        [line("algo-1-1", at) for at in (1, 2)] + [line("algo-1-2", at) for at in (3, 4)]
    )
    merge = merged(log)
    shown = []
    for log.now in (1.5, 3.5, 9.0):
        shown += [each.time for each in merge.ready()]
    assert shown == [1, 2, 3, 4]


def test_lines_of_one_time_stay_in_the_order_of_their_stream():
    log = PrintedLog([Printed(stream="algo-1-1", at=1, seen=1, text=text) for text in "bca"])
    log.now = 2.0
    assert [each.text for each in merged(log).remaining()] == ["b", "c", "a"]


def test_an_error_in_the_middle_loses_and_repeats_nothing():
    lines = [line(f"{host}-1", at) for at in range(50) for host in HOSTS]
    log = PrintedLog(lines)
    log.now = 100.0
    merge = merged(log, buffered_lines=12)
    shown = []
    for each in merge.remaining():
        shown.append(each.text)
        if len(shown) == 70:
            log.fails = [Unreachable("cut")]
            break
    with pytest.raises(Unreachable):
        shown += [each.text for each in merge.remaining()]
    shown += [each.text for each in merge.remaining()]
    assert shown == [each.text for each in sorted(lines, key=lambda each: each.at)]


def test_a_host_that_the_request_does_not_explain_is_shown_all_the_same():
    log = PrintedLog([line("algo-9-1", 1)])
    log.now = 2.0
    assert [(each.group, each.host) for each in merged(log).remaining()] == [("?", "algo-9")]


def test_a_line_that_is_printed_again_and_again_at_one_time_is_no_repeated_log():
    log = PrintedLog([Printed(stream="algo-1-1", at=1, seen=1, text="nan")] * 50)
    log.now = 2.0
    assert len(list(merged(log, buffered_lines=1).remaining())) == 50


@pytest.mark.parametrize("at", [(1, 1), (1, 2)], ids=["at one time", "at two times"])
def test_a_log_that_has_the_same_page_at_each_position_is_refused(at):
    class Endless(PrintedLog):
        def read_log(self, job_name, stream, position=None, limit=10_000):
            events, _ = super().read_log(job_name, stream, None, limit)
            return events, str(int(position or 0) + 1)

    log = Endless([Printed(stream="algo-1-1", at=each, seen=each, text="step") for each in at])
    log.now = 3.0
    with pytest.raises(CloudError, match="the log algo-1-1 repeats itself"):
        for _ in merged(log).remaining():
            pass
